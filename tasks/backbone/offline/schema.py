"""The database as the offline model knows it: what a prompt says, and nothing else."""

from dataclasses import dataclass, field
from typing import Literal

from tasks.records import ColumnName

ValueKind = Literal["number", "text", "unknown"]


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """One column as the prompt shows it.

    Attributes:
        stems: stems of the name's words.
        description: its sentence in the prompt, "" without one.
        samples: sample values as text, NULLs left out.
        kind: what the samples or the declared type say it holds.
    """

    name: ColumnName
    stems: tuple[str, ...]
    description: str = ""
    samples: tuple[str, ...] = ()
    kind: ValueKind = "unknown"


@dataclass(frozen=True, slots=True)
class SchemaTable:
    """One table as the prompt shows it."""

    name: str
    stems: tuple[str, ...]
    columns: tuple[SchemaColumn, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    """One column pair of a foreign key."""

    child: ColumnName
    parent: ColumnName


@dataclass(frozen=True, eq=False)
class PromptSchema:
    """What the prompt says about the database; compared by identity."""

    tables: tuple[SchemaTable, ...] = ()
    references: tuple[Reference, ...] = ()
    _tables: dict[str, SchemaTable] = field(init=False, repr=False, default_factory=dict)
    _columns: dict[ColumnName, SchemaColumn] = field(init=False, repr=False, default_factory=dict)
    _by_name: dict[str, list[ColumnName]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        for table in self.tables:
            self._tables.setdefault(table.name.lower(), table)
            for column in table.columns:
                self._columns[column.name] = column
                self._by_name.setdefault(column.name.column.lower(), []).append(column.name)

    def table(self, name: str) -> SchemaTable | None:
        """Return the table of that name, compared without case."""
        return self._tables.get(name.lower())

    def column(self, name: ColumnName) -> SchemaColumn:
        """Return a column of this schema."""
        return self._columns[name]

    def find(self, column: str, table: str = "") -> tuple[ColumnName, ...]:
        """Return the columns of that name, compared without case, of one table or of all."""
        names = self._by_name.get(column.lower(), ())
        return tuple(name for name in names if not table or name.table.lower() == table.lower())

    @property
    def columns(self) -> tuple[SchemaColumn, ...]:
        """Every column, in schema order."""
        return tuple(column for table in self.tables for column in table.columns)

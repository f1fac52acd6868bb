"""A database of another engine that a SQLite database is copied into."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

from tasks.core.registry import Registry
from tasks.database.identifiers import quoted
from tasks.database.loading.plan import Kind, LoadedTable, LoadPlan, Source
from tasks.database.location import Location
from tasks.database.schema import LOAD_MARK, ForeignKey

TARGETS: Registry[type["Target"]] = Registry(
    "engine that copies are written into",
    package="tasks.database.loading.targets",
    group="crosscheck.targets",
)

READER_PASSWORD = "CROSSCHECK_READER_PASSWORD"  # noqa: S105 - the name of a variable
"""Environment variable of the password of a role that a load makes."""
CHUNK = 5000
"""Rows that are sent at once."""
MARKED = f"SELECT content FROM {LOAD_MARK}"
MARKING = (f"CREATE TABLE {LOAD_MARK} (content TEXT)", f"INSERT INTO {LOAD_MARK} VALUES (%s)")
"""Statements that leave the mark; the parameter is `Mark.text`."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a copy says of itself, in a table that no schema shows."""

    fingerprint: str  # of what was copied
    complete: bool  # whether the copy was finished
    tables: tuple[str, ...]  # names of the tables that were created

    @property
    def text(self) -> str:
        """The mark as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str | None) -> "Mark":
        """Return the mark of a text; of a copy that was interrupted before it was written, an incomplete one."""
        found = json.loads(text) if text else {}
        return cls(found.get("fingerprint", ""), found.get("complete", False), tuple(found.get("tables", ())))


@dataclass(frozen=True, slots=True)
class TargetContents:
    """What a database holds."""

    tables: tuple[str, ...]  # names of its tables and views, the mark's own left out
    mark: Mark | None  # of an earlier copy; None where there is none

    @classmethod
    def found(cls, names: Sequence[str], marked: Callable[[], Sequence[str] | None]) -> "TargetContents":
        """Return what a database holds, by the names of all tables and views; `marked` reads the row of the mark."""
        mark = None
        if LOAD_MARK in names:
            row = marked()
            mark = Mark.read(row[0] if row else None)
        return cls(tuple(name for name in names if name != LOAD_MARK), mark)

    @property
    def foreign(self) -> tuple[str, ...]:
        """Tables that no copy has created."""
        own = self.mark.tables if self.mark else ()
        return tuple(name for name in self.tables if name not in own)


class Target(ABC):
    """A database that is written; closed at the end of a `with` block.

    Attributes:
        dialect: sqlglot's name of its dialect.
        types: its name of each kind of column.
        errors: exceptions that belong to the engine.
    """

    dialect: ClassVar[str]
    types: ClassVar[dict[Kind, str]]
    errors: tuple[type[BaseException], ...]

    @abstractmethod
    def __init__(self, location: Location) -> None:
        """Name the database; nothing is opened yet."""

    def __enter__(self) -> "Target":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def held(self) -> TargetContents | None:
        """Return what the database holds; None where there is no such database."""

    @abstractmethod
    def write(
        self,
        source: Source,
        plan: LoadPlan,
        mark: Mark,
        held: TargetContents | None,
        on_rows: Callable[[int], None],
    ) -> tuple[str, ...]:
        """Replace what the database holds by a copy, so that a copy that is interrupted is no complete one.

        Args:
            source: what is copied.
            plan: how.
            mark: what the copy says of itself at the end.
            held: what is there now, and is dropped; None: the database is created.
            on_rows: called with the number of rows whenever some were sent.

        Returns:
            What the engine could not take over, in sentences.
        """

    @abstractmethod
    def grant(self, role: str) -> None:
        """Let a role read the copy, and make the role where there is none.

        Raises:
            ConfigurationError: the role cannot be made.
        """

    @abstractmethod
    def rights(self, error: BaseException | None = None) -> str:
        """Return what the writing role needs, as a sentence, or what the engine said of an error."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""

    def name(self, name: str) -> str:
        """Return a name in quotes."""
        return quoted(name, self.dialect)

    def names(self, names: tuple[str, ...]) -> str:
        """Return names in quotes, separated by commas."""
        return ", ".join(map(self.name, names))

    def creation(self, table: LoadedTable, *more: str) -> str:
        """Return CREATE TABLE with the primary key and further parts."""
        parts = [f"{self.name(column.name)} {self.types[column.kind]}" for column in table.columns]
        if table.primary_key:
            parts.append(f"PRIMARY KEY ({self.names(table.primary_key)})")
        return f"CREATE TABLE {self.name(table.name)} ({', '.join((*parts, *more))})"

    def reference(self, key: ForeignKey) -> str:
        """Return a foreign key as a part of CREATE TABLE or ALTER TABLE."""
        parent = f"{self.name(key.parent)} ({self.names(key.parent_columns)})"
        return f"FOREIGN KEY ({self.names(key.columns)}) REFERENCES {parent}"

    def comments(self, table: LoadedTable) -> Iterator[str]:
        """Return the statements that comment on a table and its columns."""
        name = self.name(table.name)
        columns = ((f"COLUMN {name}.{self.name(column.name)}", column.comment) for column in table.columns)
        for what, comment in ((f"TABLE {name}", table.comment), *columns):
            if comment:
                literal = "'" + comment.replace("\0", "").replace("'", "''") + "'"
                yield f"COMMENT ON {what} IS {literal}"

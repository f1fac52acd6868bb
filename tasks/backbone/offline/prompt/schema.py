"""The database as a prompt describes it."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tasks.core.records import ColumnName
from tasks.database.dialects import SQLITE

ValueKind = Literal["number", "text", "unknown"]


@dataclass(frozen=True, slots=True)
class SchemaColumn:
    """One column, with the stems of its name, its sample values as text, and what they or its type say it holds."""

    name: ColumnName
    stems: tuple[str, ...]
    samples: tuple[str, ...] = ()
    kind: ValueKind = "unknown"


@dataclass(frozen=True, slots=True)
class SchemaTable:
    """One table."""

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
    """Tables and foreign keys; compared by identity."""

    tables: tuple[SchemaTable, ...] = ()
    references: tuple[Reference, ...] = ()
    dialect: str = SQLITE  # sqlglot's name of the dialect in which queries are to be written

    def table(self, name: str) -> SchemaTable | None:
        """Return the table of that name, compared without case."""
        return self._tables.get(name.lower())

    def columns_of(self, table: str) -> tuple[SchemaColumn, ...]:
        """Return the columns of a table, () where there is no such table."""
        found = self.table(table)
        return found.columns if found else ()

    def column(self, name: ColumnName) -> SchemaColumn:
        """Return a column of this schema."""
        return self._columns[name]

    def find(self, column: str, table: str = "") -> tuple[ColumnName, ...]:
        """Return the columns of that name, compared without case, of one table or of all."""
        names = self._by_name.get(column.lower(), ())
        return tuple(name for name in names if not table or name.table.lower() == table.lower())

    def columns_in(self, text: str) -> Iterator[ColumnName]:
        """Yield the columns that a text names as `table.column`, with or without quotes."""
        plain = re.sub(r"[`\"]", "", text).lower()
        for column in self._columns:
            name = str(column).lower()
            if name in plain and re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", plain):
                yield column

    @property
    def columns(self) -> tuple[SchemaColumn, ...]:
        """Every column, in schema order."""
        return tuple(self._columns.values())

    @cached_property
    def _tables(self) -> dict[str, SchemaTable]:
        return {table.name.lower(): table for table in reversed(self.tables)}

    @cached_property
    def _columns(self) -> dict[ColumnName, SchemaColumn]:
        return {column.name: column for table in self.tables for column in table.columns}

    @cached_property
    def _by_name(self) -> dict[str, list[ColumnName]]:
        found: dict[str, list[ColumnName]] = defaultdict(list)
        for name in self._columns:
            found[name.column.lower()].append(name)
        return found

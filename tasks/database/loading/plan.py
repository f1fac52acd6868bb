"""What is copied of a SQLite database, and as which types.

A SQLite column may hold values of any class, so its values decide, not its declaration alone:

| declared | values | type |
|--|--|--|
| BOOL... | 0 and 1 only | boolean |
| DATE..., DATETIME, TIMESTAMP | texts `2026-11-01` only | date |
| DATE..., DATETIME, TIMESTAMP | such texts, or `2026-11-01 09:30:00`, also with T or up to 6 decimals | timestamp |
| anything else | whole numbers only | integer of 64 bits |
| anything | numbers | double; DECIMAL too, because SQLite computes with doubles |
| anything | BLOBs only | blob |
| anything | texts, or texts and others | text; numbers as SQLite writes them, BLOBs in hexadecimal |

A column without values has its declared type. NULL stays NULL, and the empty text stays a text. With `invalid="null"`,
a column that is declared as a number, a boolean or a moment keeps that type, and the values that are none become NULL.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal

from tasks.database.database import Database
from tasks.database.dialects import dialect_of
from tasks.database.identifiers import SQLITE, quoted
from tasks.database.schema import Column, ForeignKey, Table
from tasks.database.sqlite.files import read_only_uri
from tasks.database.sqlite.restrictions import tolerant_text

Kind = Literal["integer", "real", "boolean", "date", "timestamp", "text", "blob"]
Invalid = Literal["text", "null"]

VERSION = 2
"""Raised when databases have to be loaded again, because a rule of this module or of a target has changed."""
AT_ONCE = 60
"""Columns that one query looks at: SQLite allows 2000 expressions."""
# the year as an expression: a column declared as DATE would be compared with a number
_DATE = "date({0}, '+0 days') IS {0} AND substr({0}, 1, 4) >= '0001'"
_MOMENT = (
    "({date} OR (strftime('%Y-%m-%d %H:%M:%S', {0}, '+0 days') IS replace(substr({0}, 1, 19), 'T', ' ') "
    "AND substr({0}, 1, 4) >= '0001' AND (length({0}) = 19 OR (length({0}) <= 26 AND substr({0}, 20) GLOB '.[0-9]*' "
    "AND substr({0}, 21) NOT GLOB '*[^0-9]*'))))"
)
_FITS = {
    "integer": "typeof({0}) = 'integer'",
    "real": "typeof({0}) IN ('integer', 'real')",
    "boolean": "(typeof({0}) = 'integer' AND {0} IN (0, 1))",
    "date": f"(typeof({{0}}) = 'text' AND {_DATE})",
    "timestamp": f"(typeof({{0}}) = 'text' AND {_MOMENT.replace('{date}', _DATE)})",
    "text": "typeof({0}) = 'text'",
    "blob": "typeof({0}) = 'blob'",
}
"""Whether a value is of a kind, as SQL."""
_READ = {"real": "CAST({0} AS REAL)", "timestamp": "replace({0}, 'T', ' ')"}
_AS_TEXT = "CASE typeof({0}) WHEN 'blob' THEN hex({0}) ELSE CAST({0} AS TEXT) END"


@dataclass(frozen=True, slots=True)
class LoadedColumn:
    """A column of the copy."""

    name: str  # in the copy
    kind: Kind  # type of the copy
    comment: str  # what it means, "" where unknown
    longest: int  # characters of its longest text
    read: str  # SQL that reads its values from the source
    complete: bool  # whether no value of the copy is NULL


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A table of the copy."""

    source: str  # its name in the source
    name: str  # its name in the copy
    columns: tuple[LoadedColumn, ...]  # in the source's order
    primary_key: tuple[str, ...]  # names in the copy, () where there is none
    comment: str  # what it holds, "" where unknown
    rows: int  # how many


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """What is copied of a database."""

    tables: tuple[LoadedTable, ...]  # a parent before its children, as far as there is no circle
    foreign_keys: tuple[ForeignKey, ...]  # those that hold, with the names of the copy
    notes: tuple[str, ...]  # what differs from the source's declarations, in sentences

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(table.rows for table in self.tables)


class Source:
    """A SQLite file that is copied; closed at the end of a `with` block."""

    def __init__(self, database: Database, dialect: str, invalid: Invalid) -> None:
        self._database = database
        self._folded = dialect_of(dialect).folded
        self._invalid = invalid
        self._connection = sqlite3.connect(read_only_uri(database.path), uri=True)
        self._connection.text_factory = tolerant_text

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def plan(self) -> LoadPlan:
        """Decide types and keys; reads every table once, and twice where keys have to be checked."""
        notes: list[str] = []
        schema = self._database.schema
        tables = {table.name: self._table(table, notes) for table in schema.tables}
        keys = [key for key in schema.foreign_keys if self._holds(key, tables, notes)]
        renamed = tuple(
            ForeignKey(
                tables[key.table].name,
                tuple(map(self._folded, key.columns)),
                tables[key.parent].name,
                tuple(map(self._folded, key.parent_columns)),
            )
            for key in keys
        )
        return LoadPlan(_parents_first(list(tables.values()), renamed), renamed, tuple(notes))

    def rows(self, table: LoadedTable) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table in the source's order."""
        # a row of many columns is read in one piece: SQLite allows at least 500 in a result
        chosen = ", ".join(column.read for column in table.columns)
        with closing(
            self._connection.execute(f"SELECT {chosen} FROM {quoted(table.source, SQLITE)}")
        ) as cursor:
            yield from cursor

    def _table(self, table: Table, notes: list[str]) -> LoadedTable:
        rows = self._one(f"SELECT count(*) FROM {quoted(table.name, SQLITE)}")[0]
        columns: list[LoadedColumn] = []
        for start in range(0, len(table.columns), AT_ONCE):
            columns += self._columns(table, table.columns[start : start + AT_ONCE], rows, notes)
        complete = {column.name for column in columns if column.complete and column.kind != "blob"}
        key = tuple(map(self._folded, table.primary_key))
        if not complete.issuperset(key):
            notes.append(f"{table.name}: without its primary key, which holds NULL or a BLOB.")
            key = ()
        return LoadedTable(table.name, self._folded(table.name), tuple(columns), key, table.description, rows)

    def _columns(
        self, table: Table, part: Sequence[Column], rows: int, notes: list[str]
    ) -> Iterator[LoadedColumn]:
        names = [quoted(column.name, SQLITE) for column in part]
        counted = [
            expression.format(name)
            for name in names
            for expression in (
                *(f"total({fits})" for fits in _FITS.values()),
                "count({0})",
                "max(length({0}))",
            )
        ]
        found = iter(self._one(f"SELECT {', '.join(counted)} FROM {quoted(table.name, SQLITE)}"))
        for column, name in zip(part, names, strict=True):
            counts = {kind: int(next(found)) for kind in _FITS}
            present, longest = next(found), next(found)
            wanted = declared_kind(column.type)
            kind = chosen_kind(wanted, counts, present)
            read = _AS_TEXT if kind == "text" and counts["text"] < present else _READ.get(kind, "{0}")
            lost = 0
            if wanted is not None and kind == "text" != wanted and present:
                others = present - counts[wanted]
                what = f"{table.name}.{column.name} ({column.type}): {others:,} of {present:,} values are no {wanted}"
                if self._invalid == "null":
                    kind, lost = wanted, others
                    read = f"CASE WHEN {_FITS[kind]} THEN {_READ.get(kind, '{0}')} END"
                notes.append(f"{what}; {'they are NULL' if lost else 'the column is text'}.")
            comment = "; ".join(
                text for text in (column.description.rstrip(". ;"), column.value_description) if text
            )
            yield LoadedColumn(
                self._folded(column.name),
                kind,
                comment,
                longest or 0,
                read.format(name),
                present - lost == rows,
            )

    def _holds(self, key: ForeignKey, tables: dict[str, LoadedTable], notes: list[str]) -> bool:
        child, parent = tables[key.table], tables[key.parent]
        named = f"{key.table} ({', '.join(key.columns)}) to {key.parent} ({', '.join(key.parent_columns)})"
        if sorted(map(self._folded, key.parent_columns)) != sorted(parent.primary_key):
            notes.append(f"Without the foreign key {named}, which is no primary key.")
            return False
        kinds = [{column.name: column.kind for column in table.columns} for table in (child, parent)]
        pairs = list(zip(key.columns, key.parent_columns, strict=True))
        if any(kinds[0][self._folded(one)] != kinds[1][self._folded(other)] for one, other in pairs):
            notes.append(f"Without the foreign key {named}, whose types differ.")
            return False
        present = " AND ".join(f"c.{quoted(one, SQLITE)} IS NOT NULL" for one, _ in pairs)
        same = " AND ".join(
            f"p.{quoted(other, SQLITE)} = c.{quoted(one, SQLITE)} COLLATE BINARY" for one, other in pairs
        )
        orphans = self._one(
            f"SELECT count(*) FROM {quoted(key.table, SQLITE)} c WHERE {present} AND NOT EXISTS "
            f"(SELECT 1 FROM {quoted(key.parent, SQLITE)} p WHERE {same})"
        )[0]
        if orphans:
            notes.append(f"Without the foreign key {named}, which {orphans:,} of {child.rows:,} rows break.")
        return not orphans

    def _one(self, sql: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self._connection.execute(sql).fetchone()
        return row


def declared_kind(declared: str) -> Kind | None:
    """Return the kind that a column's declaration asks for; None where it asks for none.

    >>> [declared_kind(name) for name in ("VARCHAR(9)", "BIGINT", "DATETIME", "date", "DECIMAL(9, 2)", "")]
    ['text', 'integer', 'timestamp', 'date', 'real', None]
    """
    name = declared.upper()
    begins: tuple[tuple[str, Kind], ...] = (
        ("BOOL", "boolean"),
        ("DATETIME", "timestamp"),
        ("TIMESTAMP", "timestamp"),
        ("DATE", "date"),
    )
    for beginning, kind in begins:
        if name.startswith(beginning):
            return kind
    # https://www.sqlite.org/datatype3.html, section 3.1
    holds: tuple[tuple[str, Kind], ...] = (
        ("INT", "integer"),
        ("CHAR", "text"),
        ("CLOB", "text"),
        ("TEXT", "text"),
        ("BLOB", "blob"),
    )
    return next((kind for part, kind in holds if part in name), "real" if name else None)


def chosen_kind(wanted: Kind | None, counts: dict[str, int], present: int) -> Kind:
    """Return the kind of a column by its declared kind, how many values fit each, and how many are not NULL."""
    if not present:
        return wanted or "text"
    order: tuple[Kind, ...] = ("integer", "real", "blob")
    if wanted == "boolean":
        order = ("boolean", *order)
    elif wanted in ("date", "timestamp"):
        order = ("date", "timestamp", *order)
    return next((kind for kind in order if counts[kind] == present), "text")


def _parents_first(tables: list[LoadedTable], keys: Sequence[ForeignKey]) -> tuple[LoadedTable, ...]:
    """Return the tables in their order, each after its parents as far as there is no circle."""
    ordered: list[LoadedTable] = []
    while tables:
        waiting = {table.name for table in tables}
        free = next(
            (
                table
                for table in tables
                if not any(key.table == table.name and key.parent in waiting - {table.name} for key in keys)
            ),
            tables[0],
        )
        tables.remove(free)
        ordered.append(free)
    return tuple(ordered)

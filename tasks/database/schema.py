"""A database's schema as a frozen tree, and its reduction to a link."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

from tasks.core.records import ColumnName, ColumnValues, Link
from tasks.database.dialects import dialect_name as dialect_name


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """A benchmark's description of one column; "" for a part that it does not have."""

    description: str = ""
    value_description: str = ""


Descriptions = Mapping[tuple[str, str], ColumnDescription]
"""Descriptions of columns, by lower-cased (table, column)."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column."""

    name: str  # as the database spells it
    type: str = ""  # declared type as the database spells it, "" when undeclared
    description: str = ""  # what it means, from the benchmark or generated, "" when unknown
    value_description: str = ""  # what its values mean, "" when unknown
    # values of the first rows, in row order, None for NULL; as many as the schema was read with
    samples: tuple[Any, ...] = ()
    # share of the rows in which it is NULL, 0..1; None where that was not counted
    missing: float | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One table or view, its columns in the database's order."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()  # names of the key's columns in key order, () when it has none
    description: str = ""  # what the table holds, "" when unknown
    view: bool = False  # whether it is a view, which has no rows of its own and therefore no samples

    def with_rows(self, rows: Iterable[tuple[Any, ...]]) -> "Table":
        """Return the table with the values of rows as the samples of its columns."""
        values = list(zip(*rows, strict=True)) or [()] * len(self.columns)
        sampled = (
            replace(column, samples=tuple(own)) for column, own in zip(self.columns, values, strict=True)
        )
        return replace(self, columns=tuple(sampled))


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key, composite ones in one piece: `table`.`columns` point to `parent`.`parent_columns`."""

    table: str
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]


@dataclass(frozen=True)
class Schema:
    """The schema of one database."""

    database_id: str  # the benchmark's name of the database
    tables: tuple[Table, ...]  # in the database's order
    foreign_keys: tuple[ForeignKey, ...] = ()  # declared in the database or by the benchmark's tables file
    dialect: str = field(kw_only=True)  # sqlglot's name of the SQL dialect

    def __hash__(self) -> int:
        """Return the digest's hash, which is computed once, for caches over a SQL and its schema."""
        return hash(self.digest)

    @property
    def dialect_name(self) -> str:
        """The dialect as its makers write it, for prompts."""
        return dialect_name(self.dialect)

    @cached_property
    def digest(self) -> str:
        """Sha256 of everything a prompt can show of this schema."""
        tables, keys = [asdict(table) for table in self.tables], [asdict(key) for key in self.foreign_keys]
        content = [self.database_id, self.dialect, tables, keys]
        return hashlib.sha256(json.dumps(content, default=repr, ensure_ascii=False).encode()).hexdigest()

    @cached_property
    def column_names(self) -> tuple[ColumnName, ...]:
        """Every column, in schema order."""
        return tuple(ColumnName(table.name, column.name) for table in self.tables for column in table.columns)

    @cached_property
    def columns_by_table(self) -> Mapping[str, frozenset[str]]:
        """The names of each table's columns, all in lower case."""
        return {t.name.lower(): frozenset(c.name.lower() for c in t.columns) for t in self.tables}

    @cached_property
    def _tables_by_name(self) -> Mapping[str, Table]:
        return {table.name.lower(): table for table in self.tables}

    def table(self, name: str) -> Table | None:
        """Return the table of that name, compared without case; None when there is none."""
        return self._tables_by_name.get(name.lower())

    def reduced_to(self, link: Link) -> "Schema":
        """Return the schema with the link's tables and columns only.

        A foreign key stays if all its columns do, so that a prompt names no column that it does not show (RSL-SQL,
        section 3.1: if both its tables do). A linked table without a linked column is left out, because a prompt
        cannot show it. An empty link falls back to the full schema.
        """
        kept = {(name.table.lower(), name.column.lower()) for name in link.columns}
        tables = []
        for table in self.tables:
            name = table.name.lower()
            columns = tuple(column for column in table.columns if (name, column.name.lower()) in kept)
            if columns:
                tables.append(replace(table, columns=columns))
        if not tables:
            return self
        return replace(self, tables=tuple(tables), foreign_keys=united(tables, self.foreign_keys))

    def limited_to(self, tables: Iterable[str]) -> "Schema":
        """Return the schema with these tables only, in full; the whole schema where it has none of them."""
        names = {name.lower() for name in tables}
        return self.reduced_to(Link(columns=tuple(c for c in self.column_names if c.table.lower() in names)))

    def with_samples(self, samples: Callable[[ColumnName, Column], tuple[Any, ...]]) -> "Schema":
        """Return the schema with other sample values, as a function of each column gives them.

        Names, keys and descriptions stay, the digest changes with the values.
        """
        return self._with_columns(lambda name, column: replace(column, samples=samples(name, column)))

    def described(self, descriptions: Descriptions) -> "Schema":
        """Return the schema with descriptions, which take precedence over those that its columns have."""

        def with_description(name: ColumnName, column: Column) -> Column:
            about = descriptions.get((name.table.lower(), name.column.lower()), ColumnDescription())
            return replace(
                column,
                description=about.description or column.description,
                value_description=about.value_description or column.value_description,
            )

        return self._with_columns(with_description)

    def with_values(self, values: Iterable[ColumnValues]) -> "Schema":
        """Return the schema with the given values as its columns' samples; columns without any have none.

        >>> table = Table("t", (Column("a", samples=(1, 2)), Column("b", samples=(3, 4))))
        >>> schema = Schema("d", (table,), dialect="sqlite")
        >>> shown = schema.with_values([ColumnValues(ColumnName("t", "b"), ("x",))])
        >>> [column.samples for column in shown.tables[0].columns]
        [(), ('x',)]
        """
        samples = {retrieved.column: retrieved.values for retrieved in values}
        return self.with_samples(lambda name, column: samples.get(name, ()))

    def _with_columns(self, changed: Callable[[ColumnName, Column], Column]) -> "Schema":
        def columns(table: Table) -> tuple[Column, ...]:
            return tuple(changed(ColumnName(table.name, column.name), column) for column in table.columns)

        return replace(self, tables=tuple(replace(table, columns=columns(table)) for table in self.tables))


def united(tables: Sequence[Table], *sources: Iterable[ForeignKey]) -> tuple[ForeignKey, ...]:
    """Return the keys of all sources, each once, spelled as the tables spell their names.

    Names are compared without case. A key that names no parent columns gets the parent's primary key. A key
    with a table or column that is absent is dropped. So is a single-column key that an earlier composite one
    already holds: benchmark files list composite keys column by column.
    """
    # a name as it is written has precedence: in PostgreSQL "Customer" and customer can be two tables
    by_name = {table.name.lower(): table for table in tables} | {table.name: table for table in tables}
    kept: list[ForeignKey] = []
    covered: set[ForeignKey] = set()  # the kept keys, and the pairs of columns of composite ones as keys
    for key in chain.from_iterable(sources):
        spelled = _spelled(key, by_name)
        if spelled is None or spelled in covered:
            continue
        kept.append(spelled)
        covered.add(spelled)
        covered.update(
            ForeignKey(spelled.table, (child,), spelled.parent, (parent,))
            for child, parent in zip(spelled.columns, spelled.parent_columns, strict=True)
        )
    return tuple(kept)


def _spelled(key: ForeignKey, by_name: dict[str, Table]) -> ForeignKey | None:
    """Return a foreign key with the names as the tables spell them; None if one of them is not there."""
    table, parent = (by_name.get(name) or by_name.get(name.lower()) for name in (key.table, key.parent))
    if table is None or parent is None:
        return None
    columns = _columns(table, key.columns)
    parent_columns = _columns(parent, key.parent_columns or parent.primary_key)
    if not columns or not parent_columns or len(columns) != len(parent_columns):
        return None
    return ForeignKey(table.name, columns, parent.name, parent_columns)


def _columns(table: Table, names: Iterable[str]) -> tuple[str, ...] | None:
    """Return names of columns as the table spells them; None if one of them is not there."""
    written = [column.name for column in table.columns]
    spelling = {name.lower(): name for name in written} | {name: name for name in written}
    spelled = tuple(spelling.get(name) or spelling.get(name.lower()) for name in names)
    return None if None in spelled else tuple(name for name in spelled if name is not None)

"""Scripts of CREATE TABLE statements, as a file of training questions brings them for its databases."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tasks.database.dialects import SQLITE
from tasks.database.foreign_keys import united
from tasks.database.schema import Column, ForeignKey, Schema, Table

if TYPE_CHECKING:
    from sqlglot import exp


def schema_from_ddl(database_id: str, ddl: str) -> Schema:
    """Return the schema that a script of CREATE TABLE statements makes, without samples.

    What sqlglot cannot parse is passed over, so a table may be missing; the first of two tables of a name counts.

    >>> ddl = "CREATE TABLE a (i INT PRIMARY KEY, j INT REFERENCES b (k)); CREATE TABLE b (k INT)"
    >>> made = schema_from_ddl("d", ddl)
    >>> [table.name for table in made.tables], made.tables[0].primary_key, made.foreign_keys[0].parent
    (['a', 'b'], ('i',), 'b')
    """
    created: dict[str, exp.Schema] = {}
    for one in _created(ddl):
        created.setdefault(one.this.name.lower(), one)
    tables = tuple(_table(one) for one in created.values())
    keys = [key for one in created.values() for key in _foreign_keys(one)]
    return Schema(database_id, tables, united(tables, keys), dialect=SQLITE)


def _table(created: "exp.Schema") -> Table:
    from sqlglot import exp

    columns = tuple(
        Column(column.name, column.kind.sql(SQLITE) if column.kind else "") for column in _columns(created)
    )
    key = [column.name for column in _columns(created) if column.find(exp.PrimaryKeyColumnConstraint)]
    for constraint in created.find_all(exp.PrimaryKey):
        key = [part.name for part in constraint.expressions]
    return Table(created.this.name, columns, tuple(key))


def _foreign_keys(created: "exp.Schema") -> Iterator[ForeignKey]:
    from sqlglot import exp

    for column in _columns(created):
        for reference in column.find_all(exp.Reference):
            yield _foreign_key(created, [column.name], reference)
    for key in created.find_all(exp.ForeignKey):
        target = key.args.get("reference")
        if isinstance(target, exp.Reference):
            yield _foreign_key(created, [part.name for part in key.expressions], target)


def _foreign_key(created: "exp.Schema", columns: list[str], reference: "exp.Reference") -> ForeignKey:
    from sqlglot import exp

    target = reference.this
    if isinstance(target, exp.Schema):
        parents = tuple(part.name for part in target.expressions)
        return ForeignKey(created.this.name, tuple(columns), target.this.name, parents)
    return ForeignKey(created.this.name, tuple(columns), target.name, ())


def _columns(created: "exp.Schema") -> "list[exp.ColumnDef]":
    from sqlglot import exp

    return [part for part in created.expressions if isinstance(part, exp.ColumnDef)]


def _created(ddl: str) -> "Iterator[exp.Schema]":
    """Yield what stands behind each CREATE TABLE: the table's name and the parts of its definition."""
    import sqlglot
    from sqlglot import exp

    with _quiet():
        try:
            statements = sqlglot.parse(ddl, dialect=SQLITE, error_level=sqlglot.ErrorLevel.IGNORE)
        except sqlglot.errors.SqlglotError:
            return
    for statement in statements:
        if isinstance(statement, exp.Create) and isinstance(statement.this, exp.Schema):
            yield statement.this


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep sqlglot from warning about every statement that it passes over."""
    logger = logging.getLogger("sqlglot")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)

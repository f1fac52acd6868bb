"""Values in the place of a schema's sample rows: everything that shows samples then shows the values."""

from collections.abc import Iterable
from dataclasses import replace

from tasks.database.schema import Schema
from tasks.records import ColumnName, ColumnValues


def with_values(schema: Schema, values: Iterable[ColumnValues]) -> Schema:
    """Return the schema with the given values as its columns' samples; columns without any have none.

    Only what is shown differs: names, keys and descriptions stay, the digest changes with the values.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("t", (Column("a", samples=(1, 2)), Column("b", samples=(3, 4)))),))
    >>> shown = with_values(schema, [ColumnValues(ColumnName("t", "b"), ("x",))])
    >>> [column.samples for column in shown.tables[0].columns]
    [(), ('x',)]
    """
    found = {one.column: one.values for one in values}
    tables = tuple(
        replace(
            table,
            columns=tuple(
                replace(column, samples=found.get(ColumnName(table.name, column.name), ()))
                for column in table.columns
            ),
        )
        for table in schema.tables
    )
    return replace(schema, tables=tables)

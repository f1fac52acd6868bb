"""Tables and columns that a query uses by DAC's measure: those that only join do not count (spec: dac, 4)."""

from typing import TYPE_CHECKING

from tasks.database.schema import Schema
from tasks.sql.elements import Elements, resolved_elements
from tasks.sql.parsing import parse
from tasks.sql.resolution import Home, resolve

if TYPE_CHECKING:
    from sqlglot import exp


def used_elements(sql: str, schema: Schema) -> Elements:
    """Return the tables that a query reads and the columns that it uses otherwise than to join.

    Aliases are resolved, in nested and correlated queries too; `*` names no column; a column that both joins and
    does something else counts. To join is to stand in USING, in a condition of ON that ties two sources together
    (`ON a.id = b.id`, but not `AND b.kind = 'x'`), or in an equality of two sources' columns in WHERE.

    A query that cannot be parsed is searched for names, and `reason` says so, as in `resolved_elements`.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("a", (Column("id"), Column("x"))), Table("b", (Column("id"),))))
    >>> [str(c) for c in used_elements("SELECT t.x FROM a AS t JOIN b ON t.id = b.id", schema).columns]
    ['a.x']
    """
    from sqlglot import exp

    tree = parse(sql, schema.dialect).tree
    found = resolve(tree, schema) if isinstance(tree, exp.Query) else None
    if found is None:
        return resolved_elements(sql, schema)
    homes = {id(node): home for node, home in found.columns if home is not None}
    used = {home for node, home in found.columns if home is not None and not _joins(node, homes)}
    return Elements(
        tuple(table.name for table in schema.tables if table.name.lower() in found.tables),
        tuple(name for name in schema.column_names if (name.table.lower(), name.column.lower()) in used),
    )


def _joins(column: "exp.Column", homes: dict[int, Home]) -> bool:
    """Whether a column stands in a condition that ties two sources together."""
    from sqlglot import exp

    node: exp.Expr = column
    while node.parent is not None and not isinstance(
        node.parent,
        exp.Join | exp.Where | exp.Query | exp.Having | exp.Case | exp.Connector | exp.Paren | exp.Not,
    ):
        node = node.parent
    clause = node.find_ancestor(exp.Join, exp.Where, exp.Query, exp.Having, exp.Case)
    if isinstance(clause, exp.Join):
        members = list(node.find_all(exp.Column))
    elif isinstance(clause, exp.Where) and isinstance(node, exp.EQ):
        members = [side for side in (node.this, node.expression) if isinstance(side, exp.Column)]
    else:
        return False
    return len({source for member in members if (source := _source(member, members, homes))}) > 1


def _source(column: "exp.Column", beside: "list[exp.Column]", homes: dict[int, Home]) -> str:
    """Return what a column is of: its qualifier, or its table where a column beside it has no qualifier."""
    home = homes.get(id(column))
    if home is not None and not all(other.table for other in beside):
        return home[0]
    return str(column.table).lower()

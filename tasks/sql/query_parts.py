"""Splits a query into parts, to name the differences between a wrong query and its gold."""

from dataclasses import dataclass
from functools import lru_cache

from tasks.database.schema import Schema
from tasks.sql.parsing import parse
from tasks.sql.resolution import equal_columns, resolve
from tasks.sql.skeleton import skeleton


@dataclass(frozen=True, slots=True)
class QueryParts:
    """The parts of a query. Names are in lower case, columns that a foreign key makes equal are one."""

    tables: frozenset[str]  # tables it reads
    columns: frozenset[str]  # columns it uses otherwise than to join
    # pairs of columns that it joins on, by the names of both, before any are made one
    joins: frozenset[frozenset[str]]
    values: tuple[str, ...]  # strings and numbers in it, sorted; LIMIT included
    skeleton: str | None  # its structure


@lru_cache(maxsize=4096)
def query_parts(sql: str, schema: Schema) -> QueryParts | None:
    """Split a query into parts; return None if it cannot be parsed or its names cannot be resolved.

    >>> from tasks.database.schema import Column, Table
    >>> schema = Schema("d", (Table("a", (Column("id"), Column("x"))), Table("b", (Column("id"),))), dialect="sqlite")
    >>> found = query_parts("SELECT x FROM a JOIN b ON a.id = b.id WHERE x > 5", schema)
    >>> sorted(found.columns), [sorted(pair) for pair in found.joins], found.values
    (['a.x'], [['a.id', 'b.id']], ('5',))
    """
    from sqlglot import exp

    tree = parse(sql, schema.dialect).tree
    found = resolve(tree, schema) if isinstance(tree, exp.Query) else None
    if tree is None or found is None:
        return None
    equal = equal_columns(schema)
    names = {id(node): f"{home[0]}.{home[1]}" for node, home in found.columns if home is not None}
    pairs = [
        (node, {id(node.this), id(node.expression)})
        for node in tree.find_all(exp.EQ)
        if id(node.this) in names and id(node.expression) in names
    ]
    joining = {side for _, sides in pairs for side in sides}
    columns = {equal.get(name, name) for node, name in names.items() if node not in joining}
    joins = {frozenset(names[side] for side in sides) for _, sides in pairs}
    owned = {f"{c.table}.{c.column}".lower() for c in schema.column_names}
    quoted = [
        node.name
        for node, _ in found.columns
        # in SQLite a name in double quotes that means no column is a string
        if node.this.args.get("quoted") and not node.table and id(node) not in names
    ]
    literals = [literal.name for literal in tree.find_all(exp.Literal)]
    return QueryParts(
        found.tables,
        frozenset(columns & (owned | set(equal.values()))),
        frozenset(joins),
        tuple(sorted([*literals, *quoted])),
        skeleton(sql, schema.dialect),
    )

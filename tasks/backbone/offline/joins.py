"""Ways from table to table over foreign keys, declared or evident from the names."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tasks.backbone.offline.schema import PromptSchema, Reference, SchemaColumn, SchemaTable
from tasks.backbone.offline.words import stems_of

_DECLARED, _EVIDENT = 1.0, 1.7


@dataclass(frozen=True, slots=True)
class Edge:
    """Tables that can be joined, with the column pairs that join them and what taking this way costs."""

    left: str
    right: str
    keys: tuple[Reference, ...]
    cost: float


@dataclass(frozen=True, slots=True)
class _Graph:
    """The edges of a schema and, by table, those that leave it."""

    edges: tuple[Edge, ...]
    neighbours: dict[str, list[tuple[str, Edge]]]


@dataclass(frozen=True, slots=True)
class JoinTree:
    """Tables in joining order; `keys[i]` joins `tables[i + 1]` to those before it, () where nothing does."""

    tables: tuple[str, ...]
    keys: tuple[tuple[Reference, ...], ...]


def join_tree(schema: PromptSchema, tables: Sequence[str]) -> JoinTree:
    """Join the tables by short ways, one after the other, each to what is joined already.

    Tables that no way leads to are joined without a condition, so that the query stays complete.
    """
    if not tables:
        return JoinTree((), ())
    joined = [tables[0]]
    keys: list[tuple[Reference, ...]] = []
    left = [table for table in tables[1:] if table != tables[0]]
    while left:
        ways = [
            (way_cost, index, way)
            for index, table in enumerate(left)
            for way_cost, way in [_way(schema, joined, table)]
        ]
        _, index, way = min(ways, key=lambda found: (found[0], found[1]))
        if not way:
            joined.append(left[index])
            keys.append(())
        for edge in way:
            new = edge.right if edge.left in joined else edge.left
            if new not in joined:
                joined.append(new)
                keys.append(edge.keys)
        left = [table for table in left if table not in joined]
    return JoinTree(tuple(joined), tuple(keys))


def distance(schema: PromptSchema, left: str, right: str) -> float:
    """Return the cost of the shortest way between two tables, infinity when there is none."""
    return 0.0 if left == right else _way(schema, [left], right)[0]


def path(schema: PromptSchema, left: str, right: str) -> tuple[Edge, ...]:
    """Return the shortest way from one table to another, () when there is none."""
    return () if left == right else _way(schema, [left], right)[1]


def counting_tables(schema: PromptSchema, table: str, target: str) -> tuple[str, ...]:
    """Return the table whose rows count the targets of a table: where a bridge leads there, the bridge."""
    way = path(schema, table, target)
    if len(way) >= 2 and way[-1].keys and way[-1].keys[0].parent.table == target:
        return (way[-1].keys[0].child.table,)
    return (target,) if target != table else ()


@lru_cache(maxsize=8)
def _graph(schema: PromptSchema) -> _Graph:
    """Build the graph of a schema, once per prompt."""
    tables, references = schema.tables, schema.references
    declared: dict[tuple[str, str], list[Reference]] = {}
    for reference in references:
        declared.setdefault((reference.child.table, reference.parent.table), []).append(reference)
    edges = []
    for (left, right), pairs in declared.items():
        if left == right:
            continue
        children = {pair.child for pair in pairs}
        parents = {pair.parent for pair in pairs}
        if len(children) == len(pairs) == len(parents) and len(pairs) > 1:  # a composite key
            edges.append(Edge(left, right, tuple(pairs), _DECLARED))
        else:
            # Of several keys between two tables the one with the same name on both sides is the plain one.
            pairs.sort(key=lambda pair: pair.child.column.lower() != pair.parent.column.lower())
            edges.extend(Edge(left, right, (pair,), _DECLARED + 0.01 * n) for n, pair in enumerate(pairs))
    known = {frozenset(pair) for pair in declared}
    for pair in _evident(tables):
        if frozenset((pair.child.table, pair.parent.table)) not in known:
            own = any(
                set(stems_of(end.column)[:-1]) & set(stems_of(end.table)) for end in (pair.child, pair.parent)
            )
            edges.append(
                Edge(pair.child.table, pair.parent.table, (pair,), _EVIDENT if own else _EVIDENT + 0.2)
            )
    graph = _Graph(tuple(edges), {})
    for edge in edges:
        graph.neighbours.setdefault(edge.left, []).append((edge.right, edge))
        graph.neighbours.setdefault(edge.right, []).append((edge.left, edge))
    return graph


def _evident(tables: tuple[SchemaTable, ...]) -> list[Reference]:
    """Return column pairs whose names say that they belong together: equal `..._id` or `..._code`, or table + id."""
    by_stems: dict[tuple[str, ...], list[SchemaColumn]] = {}
    for table in tables:
        for column in table.columns:
            stems = column.stems
            if len(stems) == 1 and stems[0] in ("id", "cod"):
                stems = (*table.stems, *stems)
            if stems and stems[-1] in ("id", "cod", "number", "isbn", "ssn") and len(stems) > 1:
                by_stems.setdefault(stems, []).append(column)
    pairs: list[Reference] = []
    for columns in by_stems.values():
        if len(columns) <= 12:
            pairs.extend(
                Reference(child.name, parent.name)
                for index, parent in enumerate(columns)
                for child in columns[index + 1 :]
                if child.name.table != parent.name.table
            )
    return pairs


def _way(schema: PromptSchema, start: Sequence[str], goal: str) -> tuple[float, tuple[Edge, ...]]:
    """Return the cheapest way from any of the tables to the goal, by Dijkstra's algorithm; ties by order."""
    neighbours = _graph(schema).neighbours
    queue: list[tuple[float, int, str]] = [(0.0, order, table) for order, table in enumerate(start)]
    came: dict[str, tuple[str, Edge] | None] = dict.fromkeys(start)
    best = dict.fromkeys(start, 0.0)
    counter = len(queue)
    while queue:
        cost, _, table = heapq.heappop(queue)
        if table == goal:
            way = []
            step = came[table]
            while step is not None:
                way.append(step[1])
                step = came[step[0]]
            return cost, tuple(reversed(way))
        if cost > best[table]:
            continue
        for other, edge in neighbours.get(table, ()):
            reached = cost + edge.cost
            if reached < best.get(other, float("inf")):
                best[other] = reached
                came[other] = (table, edge)
                counter += 1
                heapq.heappush(queue, (reached, counter, other))
    return float("inf"), ()

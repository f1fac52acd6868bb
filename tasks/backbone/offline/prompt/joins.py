"""Ways from table to table over foreign keys, declared or evident from the names."""

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tasks.backbone.offline.english.words import stems
from tasks.backbone.offline.prompt.schema import PromptSchema, Reference

_DECLARED, _EVIDENT = 1.0, 1.7
"""Costs of a step over a foreign key, and of one over columns whose names say that they belong together."""
_KEY_ENDINGS = stems("id code number isbn ssn")


@dataclass(frozen=True, slots=True)
class Edge:
    """Two tables that can be joined, the columns that join them, and the cost of the step."""

    left: str
    right: str
    key: Reference
    cost: float


@dataclass(frozen=True, slots=True)
class JoinTree:
    """Tables in joining order; `keys[i]` joins `tables[i + 1]` to those before it, None where nothing does."""

    tables: tuple[str, ...]
    keys: tuple[Reference | None, ...]


def join_tree(schema: PromptSchema, tables: Sequence[str]) -> JoinTree:
    """Join the tables by short ways, one after the other, each to what is joined already.

    Tables that no way leads to are joined without a condition, so that the query stays complete.
    """
    joined = list(tables[:1])
    keys: list[Reference | None] = []
    left = [table for table in tables if table not in joined]
    while left:
        ways = [_way(schema, joined, table) for table in left]
        index = min(range(len(left)), key=lambda n: ways[n][0])
        way = ways[index][1]
        if not way:
            joined.append(left[index])
            keys.append(None)
        for edge in way:
            new = edge.right if edge.left in joined else edge.left
            if new not in joined:
                joined.append(new)
                keys.append(edge.key)
        left = [table for table in left if table not in joined]
    return JoinTree(tuple(joined), tuple(keys))


def distance(schema: PromptSchema, left: str, right: str) -> float:
    """Return the cost of the shortest way between two tables, infinity when there is none."""
    return _way(schema, [left], right)[0]


def path(schema: PromptSchema, left: str, right: str) -> tuple[Edge, ...]:
    """Return the shortest way from one table to another, () when there is none."""
    return _way(schema, [left], right)[1]


def counting_tables(schema: PromptSchema, table: str, target: str) -> tuple[str, ...]:
    """Return the table whose rows count the targets of a table: where a bridge leads there, the bridge."""
    way = path(schema, table, target)
    if len(way) >= 2 and way[-1].key.parent.table == target:
        return (way[-1].key.child.table,)
    return (target,) if target != table else ()


def _way(schema: PromptSchema, start: Sequence[str], goal: str) -> tuple[float, tuple[Edge, ...]]:
    """Return the cheapest way from any of the tables to the goal, by Dijkstra's algorithm; ties by order."""
    edges = _edges(schema)
    queue: list[tuple[float, int, str, tuple[Edge, ...]]] = [
        (0.0, n, table, ()) for n, table in enumerate(start)
    ]
    done: set[str] = set()
    counter = len(queue)
    while queue:
        cost, _, table, way = heapq.heappop(queue)
        if table == goal:
            return cost, way
        if table in done:
            continue
        done.add(table)
        for edge in edges.get(table, ()):
            counter += 1
            other = edge.right if edge.left == table else edge.left
            heapq.heappush(queue, (cost + edge.cost, counter, other, (*way, edge)))
    return float("inf"), ()


@lru_cache(maxsize=8)
def _edges(schema: PromptSchema) -> dict[str, list[Edge]]:
    """Return the edges that leave each table: a foreign key each, else columns of one name that ends like a key."""
    edges: dict[frozenset[str], Edge] = {}
    references = [(reference, _DECLARED) for reference in schema.references]
    for reference, cost in (*references, *((pair, _EVIDENT) for pair in _evident(schema))):
        left, right = reference.child.table, reference.parent.table
        if left != right:
            edges.setdefault(frozenset((left, right)), Edge(left, right, reference, cost))
    leaving: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges.values():
        leaving[edge.left].append(edge)
        leaving[edge.right].append(edge)
    return leaving


def _evident(schema: PromptSchema) -> Iterator[Reference]:
    for column in schema.columns:
        if len(column.stems) > 1 and column.stems[-1] in _KEY_ENDINGS:
            for other in schema.find(column.name.column)[:12]:
                yield Reference(column.name, other)

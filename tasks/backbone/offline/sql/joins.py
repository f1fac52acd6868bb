"""Ways from table to table over foreign keys, declared or evident from the names."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tasks.backbone.offline.english.words import stems
from tasks.backbone.offline.prompt.schema import PromptSchema, Reference

_KEY_ENDINGS = stems("id code number isbn ssn")


@dataclass(frozen=True, slots=True)
class Edge:
    """Two tables that can be joined, and the columns that join them."""

    left: str
    right: str
    key: Reference


@dataclass(frozen=True, slots=True)
class JoinTree:
    """Tables in joining order; `keys[i]` joins `tables[i + 1]` to those before it, None where nothing does."""

    tables: tuple[str, ...]
    keys: tuple[Reference | None, ...]


def join_tree(schema: PromptSchema, tables: Sequence[str]) -> JoinTree:
    """Join the tables by short ways, one after the other; those that no way leads to without a condition."""
    joined = list(tables[:1])
    keys: list[Reference | None] = []
    left = [table for table in tables if table not in joined]
    while left:
        ways = {table: way for table in left if (way := path(schema, joined, table))}
        if not ways:
            joined.append(left[0])
            keys.append(None)
        for edge in min(ways.values(), key=len, default=()):
            new = edge.right if edge.left in joined else edge.left
            if new not in joined:
                joined.append(new)
                keys.append(edge.key)
        left = [table for table in left if table not in joined]
    return JoinTree(tuple(joined), tuple(keys))


def path(schema: PromptSchema, start: Sequence[str], goal: str) -> tuple[Edge, ...]:
    """Return the shortest way from any of the tables to the goal, () without one; declared keys go first."""
    edges = _edges(schema)
    ways: dict[str, tuple[Edge, ...]] = dict.fromkeys(start, ())
    queue = list(start)
    for table in queue:
        if table == goal:
            return ways[table]
        for edge in edges.get(table, ()):
            other = edge.right if edge.left == table else edge.left
            if other not in ways:
                ways[other] = (*ways[table], edge)
                queue.append(other)
    return ()


@lru_cache(maxsize=8)
def _edges(schema: PromptSchema) -> dict[str, list[Edge]]:
    """Return the edges that leave each table: a foreign key each, else columns of one name that ends like a key."""
    edges: dict[frozenset[str], Edge] = {}
    for reference in (*schema.references, *_evident(schema)):
        left, right = reference.child.table, reference.parent.table
        if left != right:
            edges.setdefault(frozenset((left, right)), Edge(left, right, reference))
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

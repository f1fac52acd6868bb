"""Equal rows of a table made one."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby

from tasks.documents.model import Cell, Span, Table, plain


def folded(table: Table) -> Table:
    """Join the names, in the first cells, of successive rows that are equal but for their names.

    >>> rows = (("bird", "60 of 113"), ("spider", "60 of 113"), None, ("strict", "60 of 113"))
    >>> folded(Table("Scores", ("", "right"), rows)).rows
    (('bird, spider', '60 of 113'), None, ('strict', '60 of 113'))
    """
    return replace(table, rows=tuple(_rows(table)))


def _rows(table: Table) -> Iterator[tuple[Cell, ...] | None]:
    for cells, group in groupby(table.rows, lambda row: row and row[1:]):
        alike = [row for row in group if row]
        names = (plain(row[0]) for row in alike if isinstance(row[0], str | tuple | Span))
        yield (", ".join(names), *cells) if cells else None

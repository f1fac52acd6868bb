"""Terminal output of two results side by side, with the rows marked that only one of them has."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.console import Console

from tasks.core.records import Execution
from tasks.core.wording import counted
from tasks.documents.text import visible
from tasks.scoring.execution.cells import comparable_rows

COMPARED = 1_000
"""Rows of each result that are read to be compared."""
MARK, SAME = "≠ ", "  "


@dataclass(frozen=True)
class Side:
    """One of the two results."""

    name: str
    found: Execution | None  # None: there is no SQL
    differs: frozenset[int] | None  # places of the rows that the other has not; None: not compared


def print_results(
    console: Console,
    predicted: Execution | None,
    gold: Execution | None,
    rows: int,
    *,
    marked: bool,
    sets: bool,
) -> None:
    """Print the results of prediction and gold side by side.

    Args:
        console: where they are printed.
        predicted: result of the prediction.
        gold: result of the gold.
        rows: most rows of each.
        marked: whether rows that only one of them has are marked and come first.
        sets: whether a row counts once, however often it is there, as under the rule bird.
    """
    places = differing_rows(predicted, gold, sets=sets) if marked else (None, None)
    sides = (Side("prediction", predicted, places[0]), Side("gold", gold, places[1]))
    left = list(_lines(sides[0], rows, (console.width - 3) // 2))
    wide = max(map(cell_len, left))
    right = list(_lines(sides[1], rows, console.width - 3 - wide))
    for one, other in zip_longest(left, right, fillvalue=""):
        padding = " " * (wide - cell_len(one))
        console.print(f"{one}{padding} | {other}".rstrip(), markup=False)


def differing_rows(
    predicted: Execution | None, gold: Execution | None, *, sets: bool
) -> tuple[frozenset[int] | None, frozenset[int] | None]:
    """Return the places of the rows of each result that the other has not; None where they cannot be compared.

    They cannot if one is missing or has failed, has not been read to its end, or has another number of columns.
    """
    if not (predicted and gold and predicted.ok and gold.ok):
        return None, None
    whole = all((each.row_count or 0) == len(each.rows) for each in (predicted, gold))
    if not whole or len(predicted.columns) != len(gold.columns):
        return None, None
    one, other = comparable_rows(predicted.rows), comparable_rows(gold.rows)
    return _not_in(one, other, sets=sets), _not_in(other, one, sets=sets)


def _not_in(rows: Sequence[Any], others: Sequence[Any], *, sets: bool) -> frozenset[int]:
    left = Counter(others)
    places = []
    for place, row in enumerate(rows):
        if not left[row]:
            places.append(place)
        elif not sets:
            left[row] -= 1
    return frozenset(places)


def _lines(side: Side, rows: int, width: int) -> Iterator[str]:
    """Yield the lines of one side, none of them wider than `width`."""
    found = side.found
    if found is None:
        yield f"{side.name}: no SQL"
        return
    if not found.ok:
        yield f"{side.name}: {found.status}"
        yield from chop_cells(visible(found.error).replace("\n", " "), width)
        return
    differs = side.differs or frozenset()
    only = f", {len(differs):,} only here ({MARK.strip()})" if differs else ""
    yield _cut(f"{side.name}: {counted(found.row_count or 0, 'row')}{only}", width)
    margin = "" if side.differs is None else SAME
    yield _cut(margin + _row(found.columns), width)
    order = sorted(range(len(found.rows)), key=lambda place: place not in differs)[:rows]
    for place in order:
        yield _cut((MARK if place in differs else margin) + _row(found.rows[place]), width)
    if (left := (found.row_count or 0) - len(order)) > 0:
        yield f"{margin}… {counted(left, 'more row')}"


def _row(values: Sequence[Any]) -> str:
    return ", ".join("NULL" if value is None else visible(str(value)).replace("\n", " ") for value in values)


def _cut(text: str, width: int) -> str:
    """Cut text to columns of the terminal; an East Asian character takes two."""
    if cell_len(text) <= width:
        return text
    return chop_cells(text, width - 1)[0] + "…"

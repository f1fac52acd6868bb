"""The rule "subset" of Spider 2.0-lite: the gold's columns must be among the predicted ones.

Runs inside the sandboxed workers, so it imports nothing heavy. As published, each column is compared as a
vector of its own, several gold results may be accepted, and further predicted columns do no harm. A gold SQL
is one accepted result whose row order is ignored. A CSV file does not tell a number from the text of a number, nor NULL
from the empty text, so predicted cells are read as the file's are (published: through a CSV file, too). NULL and NaN
equal 0, as published: a SUM over no rows may be either. A deviation: numbers are sorted as numbers where the order is
ignored (published: as text, so that 9.999 and 10 are no pair).
"""

import csv
import hashlib
import io
import math
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tasks.scoring.execution.cells import Row, comparable

TOLERANCE = 1e-2
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]+)?\Z")
LONGEST_NUMBER = 100
"""Characters of a cell that may be a number."""


@dataclass(frozen=True, slots=True)
class AcceptedResult:
    """One result that counts as right."""

    rows: tuple[Row, ...]  # its rows
    columns: tuple[int, ...] = ()  # positions of the columns that must be there; () for all


@dataclass(frozen=True, slots=True)
class SubsetGold:
    """The gold of one question: results of which one must be found, and whether row order matters."""

    accepted: tuple[AcceptedResult, ...]
    ignore_order: bool = False

    @property
    def digest(self) -> str:
        """The sha256 of what is accepted: a verdict depends on it."""
        return hashlib.sha256(repr(self).encode("utf-8", "surrogatepass")).hexdigest()


def read_gold_csv(text: str) -> tuple[Row, ...]:
    r"""Read a gold result from CSV with a header line: numbers become numbers, empty cells NULL.

    >>> read_gold_csv("name,price\ncup,2.50\npot,\n")
    (('cup', 2.5), ('pot', None))
    """
    lines = list(csv.reader(io.StringIO(text)))
    return tuple(tuple(_value(cell) for cell in line) for line in lines[1:] if line)


def subset(gold: SubsetGold, predicted: Sequence[Row]) -> bool:
    """Whether the columns of any accepted result are among the predicted columns.

    >>> gold = SubsetGold((AcceptedResult(((1, "a"), (2, "b"))),), ignore_order=True)
    >>> subset(gold, [("b", 0, 2.001), ("a", 0, 1)]), subset(gold, [(2,), (1,)])
    (True, False)
    """
    return any(_contains(result, predicted, gold.ignore_order) for result in gold.accepted)


def subset_of_csv(gold: SubsetGold, predicted: Sequence[Row]) -> bool:
    r"""As `subset`, where the accepted results come from CSV files.

    >>> gold = SubsetGold((AcceptedResult(read_gold_csv("year,note\n2010,\n")),))
    >>> subset_of_csv(gold, [("2010", "")])
    True
    """
    return subset(
        gold, [tuple(_value(cell) if type(cell) is str else cell for cell in row) for row in predicted]
    )


def vectors_match(gold: Sequence[Any], predicted: Sequence[Any], *, ignore_order: bool) -> bool:
    """Whether two columns hold the same values, numbers within the tolerance."""
    if len(gold) != len(predicted):
        return False
    gold, predicted = [[0 if v is None or v != v else v for v in column] for column in (gold, predicted)]
    if not ignore_order:
        return all(_same(one, other) for one, other in zip(gold, predicted, strict=True))
    numbers, others = _split(gold)
    predicted_numbers, predicted_others = _split(predicted)
    if len(numbers) != len(predicted_numbers) or Counter(others) != Counter(predicted_others):
        return False
    pairs = zip(sorted(numbers), sorted(predicted_numbers), strict=True)
    return all(_same(one, other) for one, other in pairs)


def _contains(result: AcceptedResult, predicted: Sequence[Row], ignore_order: bool) -> bool:
    if not result.rows:
        return not predicted
    gold = list(zip(*result.rows, strict=False))
    wanted = [gold[index] for index in result.columns if index < len(gold)] if result.columns else gold
    there = list(zip(*predicted, strict=False))
    return all(any(vectors_match(g, p, ignore_order=ignore_order) for p in there) for g in wanted)


def _same(one: Any, other: Any) -> bool:
    if _is_number(one) and _is_number(other):
        return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=TOLERANCE)
    return comparable(one) == comparable(other)


def _split(values: Sequence[Any]) -> tuple[list[Any], list[Hashable]]:
    numbers = [value for value in values if _is_number(value)]
    return numbers, [comparable(value) for value in values if not _is_number(value)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and value == value


def _value(cell: str) -> Any:
    if not cell:
        return None
    if len(cell) > LONGEST_NUMBER or not _NUMBER.match(cell):
        return cell
    return int(cell) if cell.lstrip("+-").isdigit() else float(cell)

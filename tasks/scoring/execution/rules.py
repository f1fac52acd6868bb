"""When two results are equal: the rules of execution accuracy, by name in `RULES`.

| rule | rows | row order | columns |
|--|--|--|--|
| bird | sets | ignored | in order |
| spider | multisets, DISTINCT stripped from both SQLs | matters where the gold has ORDER BY | any permutation |
| strict | multisets | matters where the gold's outermost query has ORDER BY | in order |
| subset | each column a multiset, numbers within 0.01 | ignored | the gold's among the predicted ones |

Runs inside the sandboxed workers, so it imports nothing heavy. Rows are tuples, all of one width per result. No rule
raises on any pair of results. Cells are compared as Python does, without tolerance, and NaN equals itself: 1 == 1.0 ==
True, NULL == NULL, '1' != 1.

Rule "subset" (Spider 2.0-lite): as published, each column is compared as a vector of its own, several gold results may
be accepted, and further predicted columns do no harm. A gold SQL is one accepted result whose row order is ignored. A
CSV file does not tell a number from the text of a number, nor NULL from the empty text, so predicted cells are read as
the file's are (published: through a CSV file, too). NULL and NaN equal 0, as published: a SUM over no rows may be
either. A deviation: numbers are sorted as numbers where the order is ignored (published: as text, so that 9.999 and 10
are no pair).
"""

import csv
import hashlib
import io
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tasks.sql.rewriting import Ordering

Row = tuple[Any, ...]
Cells = tuple[Hashable, ...]

_PLAIN = frozenset({int, str, bytes, bool, type(None)})
_NAN = ("not a number",)


def comparable_rows(rows: Iterable[Row]) -> list[Cells]:
    """Return rows whose cells are hashable and equal exactly when the values are."""
    return [tuple([cell if type(cell) in _PLAIN else comparable(cell) for cell in row]) for row in rows]


def comparable(value: Any) -> Hashable:
    """Return a hashable stand-in that is the same for equal values, for all NaNs, and for a list and its tuple.

    >>> comparable(float("nan")) == comparable(float("nan"))
    True
    """
    if isinstance(value, list | tuple):
        return tuple(comparable(item) for item in value)
    if isinstance(value, dict):
        return frozenset((comparable(k), comparable(item)) for k, item in value.items())
    if isinstance(value, set | frozenset):
        return frozenset(comparable(item) for item in value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    try:
        if value != value:  # only a NaN differs from itself
            return _NAN
        hash(value)
    except (TypeError, ValueError, ArithmeticError):  # a signalling NaN, an array, an unhashable object
        return (type(value).__name__, repr(value))
    return value  # type: ignore[no-any-return]


TOLERANCE = 1e-2  # largest difference of two equal numbers under the rule subset
_NUMBER = re.compile(r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]+)?\Z")
MAX_NUMBER_CHARACTERS = 100
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
    return tuple(tuple(_read_cell(cell) for cell in line) for line in lines[1:] if line)


def subset(gold: SubsetGold, predicted: Sequence[Row]) -> bool:
    """Whether the columns of any accepted result are among the predicted columns.

    >>> gold = SubsetGold((AcceptedResult(((1, "a"), (2, "b"))),), ignore_order=True)
    >>> subset(gold, [("b", 0, 2.001), ("a", 0, 1)]), subset(gold, [(2,), (1,)])
    (True, False)
    """
    return any(_contains(result, predicted, gold.ignore_order) for result in gold.accepted)


def subset_of_csv(gold: SubsetGold, predicted: Sequence[Row]) -> bool:
    r"""As `subset`, for accepted results from CSV files: predicted texts are read as the cells of the file are.

    >>> gold = SubsetGold((AcceptedResult(read_gold_csv("year,note\n2010,\n")),))
    >>> subset_of_csv(gold, [("2010", "")])
    True
    """
    as_of_csv = [tuple(_read_cell(cell) if type(cell) is str else cell for cell in row) for row in predicted]
    return subset(gold, as_of_csv)


def vectors_match(gold: Sequence[Any], predicted: Sequence[Any], *, ignore_order: bool) -> bool:
    """Whether two columns hold the same values, numbers within the tolerance; NULL and NaN count as 0."""
    if len(gold) != len(predicted):
        return False
    gold, predicted = _zeros_for_missing(gold), _zeros_for_missing(predicted)
    if not ignore_order:
        return all(_same(expected, actual) for expected, actual in zip(gold, predicted, strict=True))
    numbers, others = _split_numbers(gold)
    predicted_numbers, predicted_others = _split_numbers(predicted)
    if len(numbers) != len(predicted_numbers) or Counter(others) != Counter(predicted_others):
        return False
    pairs = zip(sorted(numbers), sorted(predicted_numbers), strict=True)
    return all(_same(expected, actual) for expected, actual in pairs)


def _zeros_for_missing(column: Sequence[Any]) -> list[Any]:
    return [0 if value is None or value != value else value for value in column]


def _contains(result: AcceptedResult, predicted: Sequence[Row], ignore_order: bool) -> bool:
    """Return whether a prediction has each needed column of an accepted result, or no row where that has none."""
    if not result.rows:
        return not predicted
    gold = list(zip(*result.rows, strict=False))
    needed = [gold[index] for index in result.columns if index < len(gold)] if result.columns else gold
    columns = list(zip(*predicted, strict=False))
    return all(any(vectors_match(g, p, ignore_order=ignore_order) for p in columns) for g in needed)


def _same(gold: Any, predicted: Any) -> bool:
    if _is_number(gold) and _is_number(predicted):
        return gold == predicted or math.isclose(gold, predicted, rel_tol=1e-9, abs_tol=TOLERANCE)
    return comparable(gold) == comparable(predicted)


def _split_numbers(values: Sequence[Any]) -> tuple[list[Any], list[Hashable]]:
    numbers = [value for value in values if _is_number(value)]
    return numbers, [comparable(value) for value in values if not _is_number(value)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and value == value


def _read_cell(cell: str) -> Any:
    if not cell:
        return None
    if len(cell) > MAX_NUMBER_CHARACTERS or not _NUMBER.match(cell):
        return cell
    return int(cell) if cell.lstrip("+-").isdigit() else float(cell)


Colours = list[int]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of execution accuracy."""

    # whether predicted rows (second) are right given the gold's rows (first), and where the gold has ORDER BY
    matches: Callable[[Sequence[Row], Sequence[Row], Ordering], bool]
    strips_distinct: bool = False  # whether it compares the results of both SQLs without their DISTINCT
    # whether predicted rows are right given accepted results in place of a gold SQL; None where the rule knows
    # none
    matches_accepted: Callable[[SubsetGold, Sequence[Row]], bool] | None = None


def bird(gold: Sequence[Row], predicted: Sequence[Row]) -> bool:
    """Sets of rows: duplicates and row order ignored, column order matters, names ignored.

    >>> bird([(1, "a"), (1, "a")], [(1.0, "a")])
    True
    """
    return set(comparable_rows(gold)) == set(comparable_rows(predicted))


def strict(gold: Sequence[Row], predicted: Sequence[Row], *, ordered: bool) -> bool:
    """Multisets of rows, or lists if the gold is ordered; column order matters, names ignored.

    >>> strict([(1,), (1,)], [(1,)], ordered=False)
    False
    """
    if len(gold) != len(predicted):
        return False
    expected, actual = comparable_rows(gold), comparable_rows(predicted)
    return expected == actual if ordered else Counter(expected) == Counter(actual)


def spider(gold: Sequence[Row], predicted: Sequence[Row], *, ordered: bool) -> bool:
    """As `strict`, but the columns may come in any order, the same one for every row.

    The test-suite semantics of Spider (Zhong et al., 2020). The caller has stripped DISTINCT from both SQLs.

    >>> spider([(1, "a"), (2, "b")], [("b", 2), ("a", 1)], ordered=False)
    True
    >>> spider([(1, "a"), (2, "b")], [("a", 2), ("b", 1)], ordered=False)
    False
    """
    if len(gold) != len(predicted):
        return False
    if not gold:
        return True
    if len(gold[0]) != len(predicted[0]):
        return False
    expected, actual = comparable_rows(gold), comparable_rows(predicted)
    gold_columns = list(zip(*expected, strict=False))
    predicted_columns = list(zip(*actual, strict=False))
    if ordered:
        return Counter(gold_columns) == Counter(predicted_columns)
    if Counter(expected) == Counter(actual):
        return True
    one_colour = [0] * len(gold_columns)  # no column is distinguished from another yet
    return _permutable(gold_columns, predicted_columns, one_colour, one_colour)


def _permutable(
    gold: list[Cells], predicted: list[Cells], gold_colours: Colours, predicted_colours: Colours
) -> bool:
    """Whether the predicted columns can be ordered so that both sides are the same multiset of rows.

    A gold column is only matched with a predicted column of its colour. To try few orders (colour refinement), columns
    with other values get other colours, then rows with other cells in columns of a colour, then columns again by the
    colours of the rows, until no colour is new. Columns that then share a colour are matched by trying.
    """
    gold_rows, predicted_rows = [0] * len(gold[0]), [0] * len(gold[0])  # the colour of each row
    colours_before = 0
    while True:
        columns = _recolour(
            _signatures(gold, gold_colours, gold_rows),
            _signatures(predicted, predicted_colours, predicted_rows),
        )
        if columns is None:
            return False
        gold_colours, predicted_colours = columns
        column_colours = len(set(gold_colours))
        if column_colours == len(gold):  # each column has a colour of its own: there is one order left
            index_of = {colour: index for index, colour in enumerate(predicted_colours)}
            in_gold_order = [predicted[index_of[colour]] for colour in gold_colours]
            return Counter(zip(*gold, strict=True)) == Counter(zip(*in_gold_order, strict=True))
        rows = _recolour(
            _signatures(zip(*gold, strict=True), gold_rows, gold_colours),
            _signatures(zip(*predicted, strict=True), predicted_rows, predicted_colours),
        )
        if rows is None:
            return False
        gold_rows, predicted_rows = rows
        colours = column_colours + len(set(gold_rows))
        if colours == colours_before:
            break
        colours_before = colours
    # the first gold column of the rarest shared colour is matched with each predicted column of that colour in turn
    columns_of = Counter(gold_colours)
    shared_colour = min((c for c in columns_of if columns_of[c] > 1), key=lambda c: columns_of[c])
    gold_single = _single_out(gold_colours, gold_colours.index(shared_colour))
    # of predicted columns with the same cells, only one is tried
    to_try = {predicted[i]: i for i, colour in enumerate(predicted_colours) if colour == shared_colour}
    return any(
        _permutable(gold, predicted, gold_single, _single_out(predicted_colours, index))
        for index in to_try.values()
    )


def _signatures(lines: Iterable[Cells], own: Colours, across: Colours) -> list[Hashable]:
    """Describe each line (a row or a column) by its own colour and its cells with the colours across it."""
    return [
        (colour, frozenset(Counter(zip(across, line, strict=True)).items()))
        for colour, line in zip(own, lines, strict=True)
    ]


def _recolour(gold: list[Hashable], predicted: list[Hashable]) -> tuple[Colours, Colours] | None:
    """Give equal signatures equal colours; None where the two sides do not have the same ones."""
    if Counter(gold) != Counter(predicted):
        return None
    colours = {signature: colour for colour, signature in enumerate(dict.fromkeys(gold))}
    return [colours[signature] for signature in gold], [colours[signature] for signature in predicted]


def _single_out(colours: Colours, index: int) -> Colours:
    return [*colours[:index], -1, *colours[index + 1 :]]


RULES: Mapping[str, Rule] = {
    "bird": Rule(lambda gold, predicted, order: bird(gold, predicted)),
    "spider": Rule(
        lambda gold, predicted, order: spider(gold, predicted, ordered=order.anywhere), strips_distinct=True
    ),
    "strict": Rule(lambda gold, predicted, order: strict(gold, predicted, ordered=order.outermost)),
    "subset": Rule(
        lambda gold, predicted, order: subset(
            SubsetGold((AcceptedResult(tuple(gold)),), ignore_order=True), predicted
        ),
        matches_accepted=subset_of_csv,
    ),
}
"""Every rule by its name: a new one is an entry here, and a name in `tasks.settings.benchmark.Rule`."""

DEFAULT_RULES = ("bird", "spider", "strict")
"""The rules of every evaluation, beside the benchmark's own."""


def rules_beside(headline: str) -> tuple[str, ...]:
    """Return the rules of an evaluation: the default ones, and the benchmark's own.

    >>> rules_beside("bird"), rules_beside("subset")
    (('bird', 'spider', 'strict'), ('subset', 'bird', 'spider', 'strict'))
    """
    return DEFAULT_RULES if headline in DEFAULT_RULES else (headline, *DEFAULT_RULES)

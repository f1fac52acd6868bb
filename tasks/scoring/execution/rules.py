"""When two results are equal: the rules of execution accuracy, by name in `RULES`.

| rule | rows | row order | columns |
|--|--|--|--|
| bird | sets | ignored | in order |
| spider | multisets, DISTINCT stripped from both SQLs | matters where the gold has ORDER BY | any permutation |
| strict | multisets | matters where the gold's outermost query has ORDER BY | in order |
| subset | each column a multiset, numbers within 0.01 | ignored | the gold's among the predicted ones |

Runs inside the sandboxed workers, so it imports nothing heavy. Rows are tuples, all of one width per result. No rule
raises on any pair of results.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tasks.scoring.execution.cells import Cells, Row, comparable_rows
from tasks.scoring.execution.subset import AcceptedResult, SubsetGold, subset, subset_of_csv

Colours = list[int]


class GoldOrder(NamedTuple):
    """Where a gold SQL has ORDER BY: anywhere, and in its outermost query."""

    anywhere: bool = False
    outermost: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of execution accuracy."""

    # whether predicted rows (second) are right given the gold's rows (first)
    matches: Callable[[Sequence[Row], Sequence[Row], GoldOrder], bool]
    strips_distinct: bool = False  # whether it compares the results of both SQLs without their DISTINCT
    # whether predicted rows are right given accepted results in the place of a gold SQL; None where the rule knows
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
    one, other = comparable_rows(gold), comparable_rows(predicted)
    return one == other if ordered else Counter(one) == Counter(other)


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
    one, other = comparable_rows(gold), comparable_rows(predicted)
    columns, others = list(zip(*one, strict=False)), list(zip(*other, strict=False))
    if ordered:
        return Counter(columns) == Counter(others)
    if Counter(one) == Counter(other):
        return True
    return _permutable(columns, others)


def _permutable(gold: list[Cells], predicted: list[Cells]) -> bool:
    """Whether some order of the predicted columns gives the gold's multiset of rows.

    Trying all permutations would be factorial. Instead columns are distinguished by their values, then rows by
    their cells in such columns, then columns by such rows, until nothing more can be distinguished (colour
    refinement). Whatever then still looks alike is tried, one pair of columns at a time.
    """
    return _match(gold, predicted, [0] * len(gold), [0] * len(predicted))


def _match(
    gold: list[Cells], predicted: list[Cells], gold_colours: Colours, predicted_colours: Colours
) -> bool:
    """Match the columns under a colouring: only columns of one colour may be matched."""
    gold_rows, predicted_rows = [0] * len(gold[0]), [0] * len(gold[0])
    known = 0
    while True:
        columns = _recolour(
            _signatures(gold, gold_colours, gold_rows),
            _signatures(predicted, predicted_colours, predicted_rows),
        )
        if columns is None:
            return False
        gold_colours, predicted_colours = columns
        colours = len(set(gold_colours))
        if colours == len(gold):
            place = {colour: index for index, colour in enumerate(predicted_colours)}
            moved = [predicted[place[colour]] for colour in gold_colours]
            return Counter(zip(*gold, strict=True)) == Counter(zip(*moved, strict=True))
        rows = _recolour(
            _signatures(zip(*gold, strict=True), gold_rows, gold_colours),
            _signatures(zip(*predicted, strict=True), predicted_rows, predicted_colours),
        )
        if rows is None:
            return False
        gold_rows, predicted_rows = rows
        if colours + len(set(gold_rows)) == known:
            break
        known = colours + len(set(gold_rows))
    sizes = Counter(gold_colours)
    colour = min((c for c in sizes if sizes[c] > 1), key=lambda c: sizes[c])
    first = gold_colours.index(colour)
    alike = {predicted[i]: i for i, c in enumerate(predicted_colours) if c == colour}
    return any(
        _match(gold, predicted, _single_out(gold_colours, first), _single_out(predicted_colours, choice))
        for choice in alike.values()
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
    return [colours[s] for s in gold], [colours[s] for s in predicted]


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

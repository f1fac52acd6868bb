"""The comparison rules against brute force on small results, and on the cases that evaluators get wrong."""

import itertools
import math
import time
from decimal import Decimal
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.scoring.execution.rules import RULES, bird, rules_beside, spider, strict
from tasks.settings.benchmark import Rule as RuleName
from tasks.sql.rewriting import Ordering

CELLS = st.sampled_from([0, 1, 2, 1.0, True, "1", "a", None, b"a"])
ANYTHING = st.one_of(
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.none(),
    st.booleans(),
    st.lists(st.integers(), max_size=2),
    st.decimals(),
    st.dictionaries(st.text(max_size=1), st.integers(), max_size=2),
)


def matches(rule: str, gold: Any, predicted: Any, order: Ordering = Ordering()) -> bool:  # noqa: B008 - frozen
    return RULES[rule].matches(gold, predicted, order)


def results(width: int, cells: st.SearchStrategy[Any] = CELLS) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    return st.lists(st.tuples(*[cells] * width), max_size=5)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Two results, often the same one with its columns and rows moved and one cell changed."""
    width = draw(st.integers(1, 4))
    gold = draw(results(width))
    if draw(st.booleans()):
        return gold, draw(results(draw(st.integers(1, 4))))
    order = draw(st.permutations(range(width)))
    moved = [tuple(row[i] for i in order) for row in gold]
    if draw(st.booleans()):
        moved = list(draw(st.permutations(moved)))
    if moved and draw(st.booleans()):
        row, column = draw(st.integers(0, len(moved) - 1)), draw(st.integers(0, width - 1))
        changed = list(moved[row])
        changed[column] = draw(CELLS)
        moved[row] = tuple(changed)
    return gold, moved


def same_multiset(one: list[Any], other: list[Any]) -> bool:
    left = list(other)
    for item in one:
        if item not in left:
            return False
        left.remove(item)
    return not left


def brute_spider(gold: list[tuple[Any, ...]], predicted: list[tuple[Any, ...]], ordered: bool) -> bool:
    if not gold and not predicted:
        return True
    if not gold or not predicted or len(gold[0]) != len(predicted[0]):
        return False
    for order in itertools.permutations(range(len(gold[0]))):
        moved = [tuple(row[i] for i in order) for row in predicted]
        if gold == moved if ordered else same_multiset(gold, moved):
            return True
    return False


@settings(max_examples=400, deadline=None)
@given(pairs(), st.booleans())
def test_spider_agrees_with_trying_every_column_permutation(pair: Any, ordered: bool) -> None:
    assert spider(*pair, ordered=ordered) is brute_spider(*pair, ordered)


@settings(max_examples=300, deadline=None)
@given(pairs())
def test_bird_agrees_with_looking_up_every_row_in_the_other_result(pair: Any) -> None:
    gold, predicted = pair
    assert bird(gold, predicted) is (all(r in predicted for r in gold) and all(r in gold for r in predicted))


@settings(max_examples=300, deadline=None)
@given(pairs(), st.booleans())
def test_strict_agrees_with_crossing_out_row_by_row(pair: Any, ordered: bool) -> None:
    gold, predicted = pair
    assert strict(gold, predicted, ordered=ordered) is (
        gold == predicted if ordered else same_multiset(gold, predicted)
    )


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 3).flatmap(lambda n: results(n, ANYTHING)),
    st.integers(1, 3).flatmap(lambda n: results(n, ANYTHING)),
)
def test_no_rule_raises_and_every_result_equals_itself(one: Any, other: Any) -> None:
    for rule in ("bird", "spider", "strict"):
        for ordered in (False, True):
            assert matches(rule, one, one, Ordering(ordered, ordered))
            forth = matches(rule, one, other, Ordering(ordered, ordered))
            back = matches(rule, other, one, Ordering(ordered, ordered))
            assert forth is back


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ([], [], "bird spider strict"),
        ([], [(1,)], ""),
        ([(1,)], [(1.0,)], "bird spider strict"),
        ([(1,)], [(True,)], "bird spider strict"),
        ([(1,)], [("1",)], ""),
        ([(None,)], [(None,)], "bird spider strict"),
        ([(None,)], [(0,)], ""),
        ([(0.1 + 0.2,)], [(0.3,)], ""),
        ([(math.nan,)], [(float("nan"),)], "bird spider strict"),
        ([(Decimal("sNaN"),)], [(Decimal("sNaN"),)], "bird spider strict"),
        ([(2**53 + 1,)], [(float(2**53),)], ""),
        ([([1, 2],)], [([1, 2],)], "bird spider strict"),
        ([(b"a",)], [("a",)], ""),
        ([(1,), (1,)], [(1,)], "bird"),
        ([(1,), (2,)], [(2,), (1,)], "bird spider strict"),
        ([(1, 2)], [(2, 1)], "spider"),
        ([(1, 2)], [(1,)], ""),
        ([(1, 1)], [(1,)], ""),
        ([(1, 2), (2, 1)], [(1, 1), (2, 2)], ""),
        ([("a", None), (1, b"x")], [(b"x", 1), (None, "a")], "spider"),
    ],
)
def test_unordered_gold(gold: Any, predicted: Any, expected: str) -> None:
    right = [rule for rule in ("bird", "spider", "strict") if matches(rule, gold, predicted)]
    assert " ".join(right) == expected


def test_row_order_matters_where_the_gold_asks_for_it() -> None:
    gold, predicted = [(1,), (2,)], [(2,), (1,)]
    assert matches("bird", gold, predicted, Ordering(True, True))
    assert not matches("spider", gold, predicted, Ordering(True))
    assert not matches("strict", gold, predicted, Ordering(True, True))
    assert matches("strict", gold, predicted, Ordering(True, False))


@pytest.mark.parametrize("changed", [False, True])
def test_wide_results_of_look_alike_columns_take_no_time(changed: bool) -> None:
    width = 24
    gold = [tuple(int(i == j) for j in range(width)) for i in range(width)]
    predicted = [tuple(reversed(row)) for row in gold]
    predicted = [row[3:] + row[:3] for row in predicted]
    if changed:  # every column still holds a single 1, two of them in the same row
        first, second = predicted[0].index(1), predicted[1].index(1)
        moved = [list(row) for row in predicted]
        moved[1][second], moved[0][second] = 0, 1
        assert moved[0][first] == 1
        predicted = [tuple(row) for row in moved]
    started = time.process_time()
    assert spider(gold, predicted, ordered=False) is not changed
    assert time.process_time() - started < 5


def test_a_long_result_with_moved_columns_takes_no_time() -> None:
    gold = [(i, i % 7, f"n{i % 100}", i % 2) for i in range(50_000)]
    predicted = [(d, c, b, a) for a, b, c, d in reversed(gold)]
    started = time.process_time()
    assert spider(gold, predicted, ordered=False)
    assert time.process_time() - started < 10


def test_every_rule_of_the_settings_is_one_that_answers_are_judged_by() -> None:
    """`benchmark.rule=subset` was once accepted by the settings and unknown to scoring: 0 % in silence."""
    assert set(get_args(RuleName)) == set(RULES)
    for name in RULES:
        assert name in rules_beside(name)
        assert matches(name, [(1, "a"), (2, "b")], [(1, "a"), (2, "b")])
        assert not matches(name, [(1,), (2,)], [(1,), (3,)])

"""Soft-F1 as published, its fault included."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.result_metrics import measure_results
from tasks.scoring.metrics.rules import soft_f1 as metric

assert metric.compare is not None
soft_f1 = metric.compare
ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=5)


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        ([], [], 1.0),
        ([(1,)], [], 0.0),
        ([], [(1,)], 0.0),
        ([(1, 2)], [(2, 1)], 1.0),
        ([(1, 2)], [(1, 3)], 0.5),
        ([(1,), (1,), (2,)], [(1,), (2,)], 1.0),
        ([(1,), (2,)], [(1,)], 2 / 3),
        ([(1,), (2,)], [(2,), (1,)], 0.0),
        ([("a", 1), ("b", 2)], [("a",), ("b",)], 2 / 3),
    ],
)
def test_cells_of_rows_at_the_same_place_are_counted(gold: Any, predicted: Any, expected: float) -> None:
    assert soft_f1(gold, predicted) == pytest.approx(expected)


@given(ROWS, ROWS)
def test_it_is_a_share_and_a_result_scores_one_against_itself(one: Any, other: Any) -> None:
    assert 0.0 <= soft_f1(one, other) <= 1.0
    assert soft_f1(one, one) == 1.0


async def test_candidates_are_executed(workers: SqlWorkers, shop: Database) -> None:
    candidates = {
        "same": "SELECT name FROM item ORDER BY id",
        "bad": "SELECT nope FROM item",
        "none": None,
    }
    gold = "SELECT name FROM item ORDER BY id"
    scores = {
        name: await measure_results(workers, shop, gold, sql, [metric], timeout_s=5)
        for name, sql in candidates.items()
    }
    assert scores == {"same": {"soft_f1": 1.0}, "bad": {"soft_f1": 0.0}, "none": {"soft_f1": 0.0}}


async def test_a_gold_that_fails_leaves_the_score_unknown(workers: SqlWorkers, shop: Database) -> None:
    scores = await measure_results(workers, shop, "SELECT nope", "SELECT 1", [metric], timeout_s=5)
    assert scores == {"soft_f1": None}

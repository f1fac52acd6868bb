"""Soft-F1 as published, its fault included."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.metrics.rules import measure_soft_f1
from tasks.scoring.metrics.rules import overlap as soft_f1

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
        name: await measure_soft_f1(workers, shop, gold, sql, timeout_s=5) for name, sql in candidates.items()
    }
    assert scores == {"same": 1.0, "bad": 0.0, "none": 0.0}


async def test_a_gold_that_fails_leaves_the_score_unknown(workers: SqlWorkers, shop: Database) -> None:
    assert await measure_soft_f1(workers, shop, "SELECT nope", "SELECT 1", timeout_s=5) is None

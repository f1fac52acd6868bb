"""The subset rule against brute force, and executed in a worker."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import (
    AcceptedResult,
    SubsetGold,
    read_gold_csv,
    subset,
    subset_of_csv,
    vectors_match,
)

CELLS = st.sampled_from([0, 1, 1.005, 1.02, 9.995, 10, "a", "b", None])
VECTORS = st.lists(CELLS, max_size=5)


def gold(*rows: tuple[Any, ...], columns: tuple[int, ...] = (), ignore_order: bool = False) -> SubsetGold:
    return SubsetGold((AcceptedResult(rows, columns),), ignore_order)


def close(one: Any, other: Any) -> bool:
    one, other = one or 0, other or 0  # NULL is 0
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return abs(one - other) <= 0.01 + 1e-12 if numbers else one == other


@given(VECTORS, VECTORS)
def test_unordered_columns_agree_with_trying_every_order(one: list[Any], other: list[Any]) -> None:
    expected = len(one) == len(other) and any(
        all(map(close, one, order)) for order in itertools.permutations(other)
    )
    assert vectors_match(one, other, ignore_order=True) is expected


@given(VECTORS, VECTORS)
def test_ordered_columns_agree_with_comparing_place_by_place(one: list[Any], other: list[Any]) -> None:
    expected = len(one) == len(other) and all(map(close, one, other))
    assert vectors_match(one, other, ignore_order=False) is expected


@pytest.mark.parametrize(
    ("accepted", "predicted", "expected"),
    [
        (gold((1, "a"), (2, "b")), [("a", 9, 1), ("b", 9, 2)], True),
        (gold((1, "a"), (2, "b")), [(1,), (2,)], False),
        (gold((1, "a"), (2, "b"), columns=(0,)), [(1,), (2,)], True),
        (gold((1,), (2,)), [(2,), (1,)], False),
        (gold((1,), (2,), ignore_order=True), [(2,), (1,)], True),
        (gold((1.0,)), [(1.009,)], True),
        (gold((1.0,)), [(1.02,)], False),
        (gold((None,)), [(None,)], True),
        (gold((None,)), [(0,)], True),
        (gold((0,)), [(None,)], True),
        (gold((None,)), [(1,)], False),
        (gold(("1",)), [(1,)], False),
        (gold((1,)), [(1,), (1,)], False),
        (gold(), [], True),
        (gold(), [(1,)], False),
        (gold((1,)), [], False),
    ],
)
def test_gold_columns_must_be_among_the_predicted(
    accepted: SubsetGold, predicted: Any, expected: bool
) -> None:
    assert subset(accepted, predicted) is expected


def test_any_of_several_accepted_results_will_do() -> None:
    accepted = SubsetGold((AcceptedResult(((1,),)), AcceptedResult(((2,),))))
    assert subset(accepted, [(2, "x")])
    assert not subset(accepted, [(3, "x")])


def test_gold_csv_keeps_numbers_texts_and_gaps_apart() -> None:
    assert read_gold_csv('a,b,c\n1,2.5,x\n,"1,000",\n') == ((1, 2.5, "x"), (None, "1,000", None))


@pytest.mark.parametrize(
    ("file", "predicted", "expected"),
    [
        ("2010,1.5\n2011,3\n", [("2010", 1.5), ("2011", 3)], True),
        ("2010,1.5\n2011,3\n", [("2010", 1.5), ("2012", 3)], False),
        ("01,1.5\n02,3\n", [("01", 1.5), ("02", 3)], True),
        ("2010,1.5\n2011,3\n", [("in 2010", 1.5), ("in 2011", 3)], False),
        ("a,1.50\nb,3\n", [("a", "1.5"), ("b", "3.00")], True),
        ("a,\nb,3\n", [("a", ""), ("b", 3)], True),
        ("a,\nb,3\n", [("a", 0), ("b", 3)], True),
        ("Nan,1\nInfinity,2\n", [("Nan", 1), ("Infinity", 2)], True),
        ("2010_1,1\n2010_2,2\n", [("2010_1", 1), ("2010_2", 2)], True),
        ("2010_1,1\n2010_2,2\n", [(20101, 1), (20102, 2)], False),
        ("9" * 5000 + ",1\n", [("9" * 5000, 1)], True),
    ],
)
def test_a_csv_file_does_not_tell_a_text_of_digits_from_a_number(
    file: str, predicted: Any, expected: bool
) -> None:
    accepted = SubsetGold((AcceptedResult(read_gold_csv(f"a,b\n{file}")),), ignore_order=True)
    assert subset_of_csv(accepted, predicted) is expected


async def test_a_text_of_digits_is_right_where_the_accepted_file_has_the_number(
    workers: SqlWorkers, shop: Database
) -> None:
    accepted = SubsetGold((AcceptedResult(read_gold_csv("year,n\n2010,1\n")),))
    sql = "SELECT strftime('%Y', '2010-05-01') AS year, 1"
    found = await Judge(workers, ("subset",), 5).verdicts(shop, "", {"a": sql}, accepted=accepted)
    assert found["a"].correct["subset"]
    # a gold SQL tells them apart
    found = await Judge(workers, ("subset",), 5).verdicts(shop, "SELECT 2010, 1", {"a": sql})
    assert not found["a"].correct["subset"]


async def test_predictions_are_judged_by_accepted_results(workers: SqlWorkers, shop: Database) -> None:
    verdicts = await Judge(workers, ("subset", "strict"), 5).verdicts(
        shop,
        "",
        {
            "right": "SELECT DISTINCT kind, name FROM item WHERE id <> 3",
            "wrong": "SELECT name FROM item",
            "bad": "SELECT nope FROM item",
            "none": None,
        },
        accepted=gold(("cup",), ("jar",), ("pot",), ignore_order=True),
    )
    assert [v.correct["subset"] for v in verdicts.values()] == [True, False, False, False]
    assert [v.correct["strict"] for v in verdicts.values()] == [False] * 4, "there is no gold SQL"
    assert [v.status for v in verdicts.values()] == ["ok", "ok", "error", "no_answer"]
    assert {v.gold_status for v in verdicts.values()} == {"ok"}


async def test_a_gold_sql_is_an_accepted_result_whose_order_is_ignored(
    workers: SqlWorkers, shop: Database
) -> None:
    verdicts = await Judge(workers, ("subset", "bird"), 5).verdicts(
        shop,
        "SELECT name, price FROM item ORDER BY id",
        {
            "more columns, other order": "SELECT id, price + 0.005, kind, name FROM item ORDER BY id DESC",
            "a column less": "SELECT name FROM item",
            "beyond the tolerance": "SELECT name, price + 0.5 FROM item",
            "a row less": "SELECT name, price FROM item WHERE id > 1",
        },
    )
    assert [v.correct["subset"] for v in verdicts.values()] == [True, False, False, False]
    assert [v.correct["bird"] for v in verdicts.values()] == [False, False, False, True]


def test_the_gold_of_spider_2_lite_accepts_what_its_files_hold(shared_data: Path) -> None:
    folder = shared_data / "spider2-lite"
    rules = {
        line["instance_id"]: line
        for line in map(json.loads, (folder / "gold/spider2lite_eval.jsonl").read_text().splitlines())
    }
    files = sorted((folder / "gold/exec_result").glob("local055*.csv"))
    assert len(files) == 2
    accepted = SubsetGold(
        tuple(AcceptedResult(read_gold_csv(file.read_text())) for file in files),
        ignore_order=rules["local055"]["ignore_order"],
    )
    for file in files:
        rows = read_gold_csv(file.read_text())
        assert subset(accepted, [(*row, "further column") for row in rows])
    assert not subset(accepted, [(0,)])

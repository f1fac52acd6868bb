"""How a person names a run: whatever is clear is understood, whatever is not is answered with what there is."""

import datetime
from typing import Any

import pytest

from tasks.core.errors import DataError
from tasks.results.run_record import RunHeader
from tasks.results.warehouse.runs import find_run, previous_run

DAY = datetime.datetime(2026, 11, 21, tzinfo=datetime.UTC)


def header(run_id: str, status: str = "complete", mlflow_run_id: str | None = None) -> RunHeader:
    return RunHeader(
        run_id=run_id,
        benchmark="demo",
        revision="1",
        backbone="weak-1",
        pipeline="rsl-sql",
        rule="bird",
        status=status,
        started=DAY,
        correct=3,
        total=4,
        mlflow_run_id=mlflow_run_id,
    )


RUNS = (
    header("20261121-040000-aaaaaa", "running"),
    header("20261121-030000-bbbbbb", mlflow_run_id="9c" * 16),
    header("20261121-020000-cccccc", "killed"),
    header("20261121-010000-dddddd", "partial", "9d" * 16),
)


@pytest.mark.parametrize(("reference", "place"), [
    ("20261121-030000-bbbbbb", 1),
    ("20261121-04", 0),
    ("9c" * 16, 1),
    ("9d9", 3),
    ("latest", 1),
    ("latest~0", 1),
    ("latest~1", 3),
])  # fmt: skip
def test_what_is_clear_is_understood(reference: str, place: int) -> None:
    assert find_run(reference, RUNS) is RUNS[place]


def test_the_run_before_is_finished_and_can_be_compared() -> None:
    assert previous_run(RUNS[0], RUNS) == RUNS[1].run_id
    assert previous_run(RUNS[1], RUNS) == RUNS[3].run_id
    assert previous_run(RUNS[3], RUNS) == "", "the first run"
    assert previous_run(RUNS[0], RUNS[1:]) == RUNS[1].run_id, "a run that no list has yet is the newest"
    others: list[dict[str, Any]] = [
        {"benchmark": "other"}, {"question_set": "others"}, {"rule": "strict"}, {"rows_removed": RUNS[1].started},
    ]  # fmt: skip
    for other in others:
        assert previous_run(RUNS[0], (RUNS[0], RUNS[1].model_copy(update=other))) == ""


def test_the_run_that_was_re_run_and_the_same_system_come_before_later_runs() -> None:
    rerun = header("5").model_copy(update={"tags": {"parent_run_id": "1"}})
    other_model = header("4").model_copy(update={"backbone": "strong"})
    other_pipeline = header("3").model_copy(update={"pipeline": "dac"})
    runs = (rerun, other_model, other_pipeline, header("2"), header("1"))
    assert previous_run(rerun, runs) == "1"
    assert previous_run(rerun.model_copy(update={"tags": {}}), runs) == "2"
    assert previous_run(rerun, runs[:3]) == "4"
    assert previous_run(runs[3], runs) == "1"


@pytest.mark.parametrize(("reference", "message"), [
    ("20261121-0", r"of 4 runs:\n  20261121-040000-aaaaaa  demo: weak-1 \| rsl-sql, EX 75.00 % \(3/4\), running"),
    ("9", "beginning of 2 runs"),
    ("latest~2", '2 runs finished so far, so "latest~1" is the oldest'),
    ("latest~x", "The latest runs are"),
    ("20261121-010000-dddddb", 'Did you mean "20261121-010000-dddddd"'),
    ("", "The latest runs are:\n  20261121-040000"),
])  # fmt: skip
def test_what_is_not_clear_is_answered_with_what_there_is(reference: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        find_run(reference, RUNS)


def test_many_runs_are_not_all_listed() -> None:
    many = tuple(header(f"2026{number:04}") for number in range(30))
    with pytest.raises(DataError, match=r"20260004.*\n  and 25 more"):
        find_run("nothing", many)


def test_without_a_run_the_command_that_makes_one_is_named() -> None:
    with pytest.raises(DataError, match="crosscheck evaluate"):
        find_run("latest", ())
    with pytest.raises(DataError, match="0 runs finished so far"):
        find_run("latest", RUNS[:1])

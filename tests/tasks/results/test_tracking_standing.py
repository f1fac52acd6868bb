"""The verdict of a run against the best run of the same questions, as MLflow's list of runs shows it."""

from dataclasses import replace
from datetime import timedelta
from typing import NoReturn

import pytest

from tasks.results.build_record import record_of
from tasks.results.mlflow.package import Completion
from tasks.results.mlflow.store import Store
from tasks.results.mlflow.tracker import Tracker, log_standing
from tasks.results.run_record import RunRecord
from tasks.results.warehouse.runs import Warehouse
from tests.tasks.results.samples import home_of, make_rows, make_run, verdict


class Runs:
    """Runs of twenty questions, of which the first ones are right."""

    def __init__(self, store: Store, warehouse: Warehouse) -> None:
        self.store, self.warehouse, self.client = store, warehouse, store.client()
        self.completion = Completion()

    def add(self, run_id: str, right: int, **changes: object) -> RunRecord:
        """Log a run."""
        rows = tuple(replace(row, final=verdict(n < right)) for n, row in enumerate(make_rows(20)))
        tracker = Tracker(home_of(self.store), self.store)
        run = make_run(run_id=run_id, tags={}, **changes)
        tracker.start(run)
        record = tracker.finish(record_of(run, rows), self.completion)
        self.warehouse.finish(record)
        log_standing(self.store, self.warehouse, record)
        return record

    def standing(self, record: RunRecord) -> tuple[str | None, float | None]:
        """Return tag and metric of a run in MLflow."""
        data = self.client.get_run(str(record.mlflow_run_id)).data
        return data.tags.get("vs_best"), data.metrics.get("ex_below_best")


@pytest.fixture
def runs(store: Store) -> Runs:
    return Runs(store, Warehouse(home_of(store).warehouse))


def test_the_first_run_of_some_questions_is_the_best_once_there_is_another(runs: Runs) -> None:
    only = runs.add("r1", 8)
    assert runs.standing(only) == ("no other run", 0)
    assert runs.standing(runs.add("r2", 7)) == (
        "tied with best, unadjusted p = 1",
        0.05,
    ) and runs.standing(only) == (
        "best",
        0,
    )
    assert runs.client.get_run(str(only.mlflow_run_id)).data.tags["score"] == (
        "40.00 % (8 of 20), 21.9 to 61.3 %"
    )


def test_a_worse_run_is_tied_until_the_difference_is_significant(runs: Runs) -> None:
    runs.add("r1", 12)
    # all that differ differ in one direction: p = 2 / 2^n
    assert runs.standing(runs.add("r2", 7)) == ("tied with best, unadjusted p = 0.062", 0.25)
    assert runs.standing(runs.add("r3", 6)) == ("lower, unadjusted p = 0.031", 0.3)


def test_the_verdicts_of_earlier_runs_are_renewed_when_a_better_one_comes(runs: Runs) -> None:
    first, second = runs.add("r1", 5), runs.add("r2", 8)
    assert runs.standing(first) == ("tied with best, unadjusted p = 0.25", 0.15)
    third = runs.add("r3", 14)
    assert [runs.standing(each)[0] for each in (first, second, third)] == [
        "lower, unadjusted p = 0.0039",
        "lower, unadjusted p = 0.031",
        "best",
    ]


@pytest.mark.parametrize(("changes", "verdict"), [
    ({"revision": "older"}, "no other run"), ({"settings": {"benchmark": {"transpile_gold": True}}}, "best"),
])  # fmt: skip
def test_a_run_of_other_questions_or_one_that_must_not_be_ranked_is_not_the_best(
    runs: Runs, changes: dict[str, object], verdict: str
) -> None:
    runs.add("other", 20, **changes)
    assert runs.standing(runs.add("r1", 8)) == (verdict, 0)


def test_runs_of_one_day_have_names_of_their_own(runs: Runs) -> None:
    def name(record: RunRecord) -> str | None:
        name: str | None = runs.client.get_run(str(record.mlflow_run_id)).info.run_name
        return name

    first, second, third = runs.add("r1", 5), runs.add("r2", 5), runs.add("r3", 5, pipeline="dac")
    assert name(first) == first.name and name(third) == third.name
    assert name(second) == f"{second.name}, {second.started:%H:%M:%S}"
    later = second.started + timedelta(days=1)
    assert name(runs.add("r4", 5, started=later)) == first.name


def test_a_verdict_that_cannot_be_written_is_logged_and_loses_nothing(
    runs: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    record = runs.add("r1", 8)
    log_standing(Store("http://127.0.0.1:9"), runs.warehouse, record)  # nobody answers on the discard port
    assert "MLflow does not show the verdict of run r1: " in caplog.text
    caplog.clear()
    damaged = Warehouse(runs.warehouse._file.path.with_name("damaged.duckdb"))
    damaged._file.path.write_bytes(b"no database" * 1000)
    log_standing(runs.store, damaged, record)
    assert "MLflow does not show the verdict of run r1: " in caplog.text


def test_a_comparison_or_page_that_fails_costs_no_run(
    runs: Runs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> NoReturn:
        raise KeyError("a bug")

    monkeypatch.setattr("tasks.results.mlflow.tracker.compare_with_previous", fail)
    runs.completion = Completion(pages=fail)
    record = runs.add("r1", 8)
    assert record.before is None and runs.standing(record) == ("no other run", 0)
    assert "The comparison with the previous run failed (" in record.remarks[-1]
    assert "r1 is not compared" in caplog.text and "r1 is logged without its pages" in caplog.text

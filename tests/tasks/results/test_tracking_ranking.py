"""How a person names a run; runs that nothing ranks: they saw the gold, or were asked again where they were wrong."""

import datetime
from collections.abc import Sequence
from typing import Any

import pytest

from tasks.core.errors import DataError
from tasks.documents.html import html
from tasks.pages.comparison import comparison_document
from tasks.results.compare import compare
from tasks.results.night_baseline import find_baseline, named_run
from tasks.results.run_record import RunHeader, RunRecord, json_of
from tasks.results.warehouse.runs import Warehouse, find_run, previous_run
from tasks.scoring.significance import PairedTest
from tasks.settings.choices import Gate
from tests.tasks.results.comparison_samples import two_runs, with_benchmark, with_status
from tests.tasks.results.night_samples import keep, unanswered
from tests.tasks.results.samples import make_run

REROLLED = {"tags": {"rerolled": "true"}}
TAGGED = {"tags": {"oracle": "skeleton"}}
SET = {"settings": {"pipeline": {"name": "rsl-sql+dac", "dac": {"oracle": "both"}}}}


def changed(stored: RunRecord, **changes: Any) -> RunRecord:
    return stored.model_copy(update=changes)


@pytest.mark.parametrize(("facts", "why"), [(REROLLED, "re-rolled"), (TAGGED, "oracle"), (SET, "oracle")])
def test_a_run_that_measures_something_else_is_not_ranked(facts: dict[str, Any], why: str) -> None:
    tags = {"sweep": "s", "parent_run_id": "r", "attempt": "1"}
    ordinary = {"tags": tags, "settings": {"pipeline": {"name": "dac", "dac": {"oracle": "none"}}}}
    assert make_run(**ordinary).why_unranked == ""
    assert why in make_run(**ordinary | facts).why_unranked


@pytest.mark.parametrize("facts", [REROLLED, TAGGED, SET])
@pytest.mark.parametrize("letter", ["A", "B"])
def test_no_run_wins_against_one_that_is_not_ranked(facts: dict[str, Any], letter: str) -> None:
    a, b = two_runs(40, 5, 200)
    assert compare(a, b).result.better == "B"
    runs = (changed(a, **facts), b) if letter == "A" else (a, changed(b, **facts))
    found = compare(*runs)
    assert (found.result.better, found.result.headline) == (None, "Not ranked")
    assert found.result.reason.startswith(letter)
    told = json_of(found)["result"]
    assert told["better"] is None and told["not_ranked"] == found.result.not_ranked != ""
    assert ">Not ranked</h1>" in html(comparison_document(found))


def test_no_run_wins_by_what_the_other_was_not_answered() -> None:
    good, bad = two_runs(0, 20, 100)
    lost = unanswered(good, range(20))
    for a, b, letter in ((good, lost, "B"), (lost, good, "A")):
        found = compare(a, b).result
        assert found.significant and found.better is None
        assert found.verdict.startswith(
            f"Not ranked: {letter} has no answer to 20 questions because of retryable"
        )
        assert json_of(compare(a, b))["result"]["better"] is None
    few = unanswered(bad, (3, 21, 50))
    assert compare(good, few).result.better == "A", "even with right answers to the three"
    assert compare(lost, bad).result.better is None
    assert compare(bad, lost).result.verdict.startswith("No difference")


@pytest.mark.parametrize("facts", [REROLLED, TAGGED])
def test_no_run_wins_by_an_answer_key_or_without_quarantine_either(facts: dict[str, Any]) -> None:
    a, b = (
        with_benchmark(run, quarantine=["1"], answer_keys=["corrected=golds.json"])
        for run in two_runs(40, 5, 200)
    )

    def results(b: RunRecord) -> dict[str, PairedTest | None]:
        return {name: each.result for name, each in compare(a, b).variants.items()}

    assert {name: each and each.better for name, each in results(b).items()} == {
        "corrected": "B",
        "without_quarantine": "B",
    }
    unranked = results(changed(b, **facts))
    assert [each and each.headline for each in unranked.values()] == 2 * ["Not ranked"]
    assert unranked["corrected"] and unranked["corrected"].verdict.startswith("Not ranked: B")


def test_each_run_is_told_its_own_reason() -> None:
    a, b = two_runs(3, 1, 20)
    assert (
        "A and B had questions asked again"
        in compare(changed(a, **REROLLED), changed(b, **REROLLED)).result.reason
    )
    both = compare(changed(a, **REROLLED), changed(b, **TAGGED)).result.not_ranked
    assert "A had questions asked again" in both and "B saw parts of the gold" in both


def ids(warehouse: Warehouse, runs: Sequence[RunRecord]) -> list[str]:
    """Write runs, and return their ids."""
    return [run.run_id for run in keep(warehouse, runs)]


def baseline_of(warehouse: Warehouse, run_id: str) -> str | None:
    runs = warehouse.runs()
    found = find_baseline(find_run(run_id, runs), runs, warehouse, frozenset(), Gate())
    return found and found.run_id


def test_the_baseline_is_the_last_run_that_may_be_ranked(warehouse: Warehouse) -> None:
    _, plain = two_runs(3, 1, 20)
    odd = [changed(plain, **facts) for facts in (REROLLED, TAGGED, SET)]
    run_ids = ids(warehouse, [plain, *odd, with_status(plain, "partial"), plain])
    assert baseline_of(warehouse, run_ids[-1]) == run_ids[0]
    assert baseline_of(warehouse, run_ids[0]) is None


def test_the_baseline_asked_the_same_questions_not_only_as_many(warehouse: Warehouse) -> None:
    _, plain = two_runs(3, 1, 20)
    first, second = (plain.model_copy(update={"rows": rows}) for rows in (plain.rows[:10], plain.rows[10:]))
    run_ids = ids(warehouse, [first, second, second])
    assert baseline_of(warehouse, run_ids[1]) is None
    assert baseline_of(warehouse, run_ids[2]) == run_ids[1]


@pytest.mark.parametrize("facts", [REROLLED, TAGGED])
def test_a_baseline_that_somebody_names_must_be_one(warehouse: Warehouse, facts: dict[str, Any]) -> None:
    _, plain = two_runs(3, 1, 20)
    run_ids = ids(warehouse, [plain, changed(plain, **facts)])
    assert named_run(run_ids[0], warehouse).run_id == run_ids[0]
    with pytest.raises(DataError, match="nothing can be worse or better"):
        named_run(run_ids[1], warehouse)


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


def test_many_runs_are_not_all_listed_and_without_one_the_command_that_makes_it_is_named() -> None:
    many = tuple(header(f"2026{number:04}") for number in range(30))
    with pytest.raises(DataError, match=r"20260004.*\n  and 25 more"):
        find_run("nothing", many)
    with pytest.raises(DataError, match="crosscheck evaluate"):
        find_run("latest", ())
    with pytest.raises(DataError, match="0 runs finished so far"):
        find_run("latest", RUNS[:1])

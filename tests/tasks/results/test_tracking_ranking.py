"""Runs that saw the gold, or were asked again where they were wrong: nothing ranks them or is held to them."""

from collections.abc import Sequence
from typing import Any

import pytest

from tasks.core.errors import DataError
from tasks.documents.html import html
from tasks.pages.comparison import comparison_document
from tasks.results.compare import compare
from tasks.results.night_baseline import find_baseline, named_run
from tasks.results.run_record import RunRecord, json_of
from tasks.results.warehouse.runs import Warehouse, find_run
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


@pytest.mark.parametrize(("facts", "why"), [
    (REROLLED, "re-rolled"), (TAGGED, "oracle"), (SET, "oracle"),
])  # fmt: skip
def test_a_run_that_measures_something_else_is_not_ranked(facts: dict[str, Any], why: str) -> None:
    assert why in make_run(**{"tags": {}, "settings": {}, **facts}).why_unranked


def test_an_ordinary_run_is_ranked() -> None:
    pipeline = {"name": "dac", "dac": {"oracle": "none"}}
    run = make_run(tags={"sweep": "s", "parent_run_id": "r", "attempt": "1"}, settings={"pipeline": pipeline})
    assert run.why_unranked == ""


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
    return [run.run_id for run, _ in keep(warehouse, runs)]


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

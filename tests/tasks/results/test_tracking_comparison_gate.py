"""The gate of a comparison: when it fails, and when it refuses to decide."""

from dataclasses import replace

import pytest

from tasks.core.errors import ConfigurationError
from tasks.core.outcome import Failure
from tasks.results.compare import compare
from tasks.results.comparison import Comparison, gated
from tasks.results.run_record import ORACLE, RunRecord
from tests.tasks.results.comparison_samples import two_runs, with_row, with_status

LOST = Failure("backbone_error", "", "no reply", retryable=True)


def gate(a: RunRecord, b: RunRecord, margin: float | None = None) -> Comparison:
    return gated(compare(a, b, margin=margin))


def without_answer(run: RunRecord, *places: int) -> RunRecord:
    for place in places:
        row = run.rows[place]
        run = with_row(run, place, outcome=replace(row.outcome, sql=None, failure=LOST))
    return run


@pytest.mark.parametrize(("fixed", "broken", "failed"), [
    (0, 0, False), (14, 2, False), (2, 5, False), (2, 14, True), (0, 6, True), (0, 5, False),
])  # fmt: skip
def test_without_a_margin_it_fails_where_b_is_proven_to_be_worse(
    fixed: int, broken: int, failed: bool
) -> None:
    found = gate(*two_runs(fixed, broken, 60)).gate
    assert found is not None and found.failed is failed


@pytest.mark.parametrize(("fixed", "broken", "margin", "failed"), [
    (0, 0, 0.05, False), (0, 0, 0.01, True), (2, 5, 0.02, True), (2, 5, 0.10, False), (30, 5, 0.01, False),
])  # fmt: skip
def test_with_a_margin_it_fails_unless_b_is_proven_not_to_be_worse_by_it(
    fixed: int, broken: int, margin: float, failed: bool
) -> None:
    found = gate(*two_runs(fixed, broken, 113), margin=margin)
    assert found.gate is not None and found.gate.failed is failed
    assert found.noninferiority is not None and found.gate.reason == found.noninferiority.verdict


@pytest.mark.parametrize("status", ["partial", "interrupted", "running"])
def test_a_run_that_did_not_end_decides_nothing(status: str) -> None:
    a, b = two_runs(14, 2, 60)
    with pytest.raises(ConfigurationError, match=rf"cannot decide: the run .* \(B\) is {status}"):
        gate(a, with_status(b, status))


def test_a_run_is_not_compared_with_itself() -> None:
    a, _ = two_runs(0, 0, 20)
    with pytest.raises(ConfigurationError, match="the same run"):
        gate(a, a)


def test_a_run_that_saw_the_gold_decides_nothing_though_it_is_better() -> None:
    a, b = two_runs(14, 2, 60)
    seen = b.model_copy(update={"tags": {**b.tags, ORACLE: "both"}})
    with pytest.raises(ConfigurationError, match="B saw parts of the gold SQL"):
        gate(a, seen)


def test_a_loss_by_unanswered_questions_decides_nothing() -> None:
    a, b = two_runs(0, 8, 60)
    with pytest.raises(ConfigurationError, match="no answer to 8 questions"):
        gate(a, without_answer(b, *range(8)))


def test_questions_that_a_did_not_answer_help_b_to_no_proof() -> None:
    a, b = two_runs(8, 0, 113)
    lost = without_answer(a, *range(8))
    assert not gate(a, b, margin=0.01).gate.failed  # type: ignore[union-attr]
    assert gate(lost, b, margin=0.01).gate.failed  # type: ignore[union-attr]
    assert gate(lost, b).gate.failed is False  # type: ignore[union-attr]


def test_a_margin_is_between_nothing_and_everything() -> None:
    with pytest.raises(ConfigurationError, match="above 0 and below 100"):
        compare(*two_runs(0, 0, 20), margin=2.0)

"""The run that tonight's is compared with, and what the comparison says."""

from collections.abc import Sequence

from tasks.errors import ConfigurationError, DataError
from tasks.scoring.build_report import is_right
from tasks.scoring.significance import Comparison, compare_runs
from tasks.tracking.comparison.comparability import common_rule
from tasks.tracking.ranking import why_unranked
from tasks.tracking.warehouse.run_names import find_run
from tasks.tracking.warehouse.runs import RunHeader, StoredRun, Warehouse


def previous_run(tonight: RunHeader, runs: Sequence[RunHeader], warehouse: Warehouse) -> StoredRun | None:
    """Return the latest complete run before tonight's that means the same; None where there is none.

    The same benchmark (name, revision, question file, selected questions), backbone and pipeline, by their names:
    what else differs is what a night is there to notice. Runs that must not be ranked are no baseline.

    Args:
        tonight: the run.
        runs: the runs there are, newest first.
        warehouse: where they are.
    """
    own = warehouse.read_run(tonight.run_id)
    for run in runs:
        earlier = run.run_id != tonight.run_id and run.started <= tonight.started
        if not (run.asks_as(tonight) and earlier and run.status == "complete"):
            continue
        stored = warehouse.read_run(run.run_id)
        unranked = why_unranked(stored.run.tags, stored.run.settings)
        if _asked(stored) == _asked(own) and not unranked:
            return stored
    return None


def named_run(reference: str, warehouse: Warehouse) -> StoredRun:
    """Return the run that a person named as a baseline.

    Raises:
        DataError: there is none of that name, it was not finished, or it must not be ranked.
    """
    run = find_run(reference, warehouse.runs())
    if not run.finished:
        raise DataError(f'The baseline "{reference}" is {run.status}: name a run that was finished.')
    stored = warehouse.read_run(run.run_id)
    if why := why_unranked(stored.run.tags, stored.run.settings):
        raise DataError(
            f'The baseline "{reference}" {why}, so nothing can be worse or better than it: name a run that asked '
            "every question once and saw no gold."
        )
    return stored


def compare_with(baseline: StoredRun, tonight: StoredRun, level: float) -> Comparison:
    """Compare tonight's run (B) with its baseline (A), without questions that either has no answer to.

    A question that an endpoint did not answer says nothing about the model: it stays in the denominator of the
    score, but a bad hour of the network must not look like a regression of the model.

    Args:
        baseline: A.
        tonight: B.
        level: of the test.

    Raises:
        ConfigurationError: the runs cannot be compared.
    """
    rule = common_rule(baseline, tonight, None)
    a, b = _rights(baseline, rule), _rights(tonight, rule)
    if not a.keys() & b.keys():
        raise ConfigurationError(
            f"{baseline.run.run_id} and {tonight.run.run_id} share no question that both have answered."
        )
    return compare_runs(a, b, confidence=1 - level)


def _asked(stored: StoredRun) -> tuple[str, set[str]]:
    """Return what tells the questions of a run from those of another: their file and their ids."""
    return stored.run.question_sha256, {row.question.id for row in stored.rows}


def _rights(stored: StoredRun, rule: str) -> dict[str, bool]:
    return {
        row.question.id: is_right(row.final, rule)
        for row in stored.rows
        if row.executable and not (row.outcome.failure and row.outcome.failure.mendable)
    }

"""The baseline of an evaluation of a nightly run, and the comparison with it."""

from collections.abc import Sequence

from tasks.errors import ConfigurationError, DataError
from tasks.scoring.report import is_right
from tasks.scoring.significance import PairedTest, compare_runs
from tasks.tracking.comparison.comparability import common_rule
from tasks.tracking.ranking import why_unranked
from tasks.tracking.warehouse.run_names import find_run
from tasks.tracking.warehouse.runs import RunHeader, StoredRun, Warehouse


def previous_run(current: RunHeader, runs: Sequence[RunHeader], warehouse: Warehouse) -> StoredRun | None:
    """Return the latest complete run before this one that asked the same; None where there is none.

    The same benchmark (name, revision, question file, selected questions), backbone and pipeline, by their names:
    differences in anything else are what a nightly run is to detect. Runs that must not be ranked are no baseline.

    Args:
        current: the run.
        runs: all runs, newest first.
        warehouse: where they are.
    """
    own = warehouse.read_run(current.run_id)
    for run in runs:
        earlier = run.run_id != current.run_id and run.started <= current.started
        if not (run.asks_as(current) and earlier and run.status == "complete"):
            continue
        stored = warehouse.read_run(run.run_id)
        unranked = why_unranked(stored.run.tags, stored.run.settings)
        if _asked(stored) == _asked(own) and not unranked:
            return stored
    return None


def named_run(reference: str, warehouse: Warehouse) -> StoredRun:
    """Return the run that a user named as a baseline.

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


def compare_with(baseline: StoredRun, current: StoredRun, level: float) -> PairedTest:
    """Compare a run (B) with its baseline (A) on the questions that both have answered.

    A question without an answer because of the endpoint stays in the denominator of the score, but not in this
    comparison: a network failure is no regression of the model.

    Args:
        baseline: A.
        current: B.
        level: of the test.

    Raises:
        ConfigurationError: the runs cannot be compared.
    """
    rule = common_rule(baseline, current, None)
    a, b = _rights(baseline, rule), _rights(current, rule)
    if not a.keys() & b.keys():
        raise ConfigurationError(
            f"{baseline.run.run_id} and {current.run.run_id} share no question that both have answered."
        )
    return compare_runs(a, b, confidence=1 - level)


def _asked(stored: StoredRun) -> tuple[str, set[str]]:
    """Return what identifies the questions of a run: their file and their ids."""
    return stored.run.question_sha256, {row.question.id for row in stored.rows}


def _rights(stored: StoredRun, rule: str) -> dict[str, bool]:
    return {
        row.question.id: is_right(row.final, rule)
        for row in stored.rows
        if row.executable and not (row.outcome.failure and row.outcome.failure.mendable)
    }

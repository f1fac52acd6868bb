"""The score of a run and its verdict against the best run of the same questions, for MLflow's list of runs.

The test is the exact McNemar test of `crosscheck compare BEST RUN`, of one pair; the letters of the leaderboard are
adjusted for the number of pairs.
"""

import logging
import time
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from tasks.core.errors import CrosscheckError
from tasks.core.wording import counts, interval, p_value, percent
from tasks.results.mlflow.store import Store, attempt
from tasks.results.run_record import NOISE, RunHeader, RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.letters import pairwise_p_values
from tasks.scoring.significance import LEVEL

if TYPE_CHECKING:
    from mlflow import MlflowClient

_LOG = logging.getLogger(__name__)

SCORE, VERSUS_BEST = "score", "vs_best"
"""Tags of a run in MLflow: its score in words, and its verdict against the best run of the same questions."""
BELOW_BEST = "ex_below_best"
"""Metric of a run in MLflow: by how much its execution accuracy is below the best run's, 0 to 1."""
ALONE = "no other run"
"""Verdict of a run whose questions no other run has."""
MAX_UPDATED = 50
"""Most earlier runs whose verdict is renewed when a better run comes: the latest."""


def score_in_words(record: RunRecord) -> str:
    """Return the score of a run with its numerator, denominator and interval, for a column of MLflow's list."""
    score = record.score
    range_ = f", {interval(*score.interval)}" if score.interval else ""
    return f"{percent(score)} ({counts(score)}){range_}"


def keep_record(record: RunRecord, notes: Iterable[str], warehouse: Warehouse, store: Store) -> RunRecord:
    """Write the record of a run to the warehouse, and its verdict to MLflow; return the record with all notes."""
    noted = record.with_notes(notes)
    try:
        warehouse.finish(noted)
    except CrosscheckError as error:
        return noted.with_notes((*noted.notes, f"The warehouse does not have this run: {error}"))
    log_standing(store, warehouse, noted)
    return noted


def log_standing(store: Store, warehouse: Warehouse, record: RunRecord) -> None:
    """Write the verdict of a run that has just ended to MLflow, and renew those of earlier runs that it beats.

    Where that fails, the log says why: score and record are written already.
    """
    if record.mlflow_run_id is None or record.mlflow.problem:
        return
    try:
        problem = attempt(store, partial(_write, _verdicts(warehouse, record)), seconds=30)
    except CrosscheckError as error:
        problem = str(error)
    if problem:
        _LOG.warning("MLflow does not show the verdict of run %s: %s", record.run_id, problem)


def _write(verdicts: "Mapping[str, tuple[float, str]]", client: "MlflowClient") -> None:
    """Write differences and verdicts, by the id of the run in MLflow."""
    from mlflow.entities import Metric, RunTag

    now = int(time.time() * 1000)
    for run_id, (below, verdict) in verdicts.items():
        metric = Metric(BELOW_BEST, round(below, 6), now, 0)
        client.log_batch(run_id, metrics=[metric], tags=[RunTag(VERSUS_BEST, verdict)])


def _verdicts(warehouse: Warehouse, record: RunRecord) -> dict[str, tuple[float, str]]:
    """Return how far each run whose verdict changes is below the best one, and its verdict."""
    same = ("benchmark", "revision", "rule", "question_set")
    peers = [
        run
        for run in warehouse.runs()
        if run.total and NOISE not in run.tags and all(getattr(run, n) == getattr(record, n) for n in same)
    ]
    by_score = sorted(peers, key=lambda run: (-(run.ex or 0.0), run.started))
    ranked = (
        stored
        for run in by_score
        if (stored := warehouse.record_of(run.run_id))
        and not stored.why_unranked
        and stored.databases == record.databases
    )
    best = next(ranked, None)
    if best is None:
        return {}
    if len(peers) == 1:
        return {record.mlflow_run_id: (0.0, ALONE)} if record.mlflow_run_id else {}
    runs: list[RunHeader] = [record, best]
    if best.run_id == record.run_id:
        runs = [record, *[run for run in peers if run.run_id != record.run_id][:MAX_UPDATED]]
    right = warehouse.right_answers({best.run_id, *(run.run_id for run in runs)}, record.rule)
    return {run.mlflow_run_id: _against(best, run, right) for run in runs if run.mlflow_run_id}


def _against(best: RunRecord, run: RunHeader, right: Mapping[str, Mapping[str, bool]]) -> tuple[float, str]:
    """Return how far a run is below the best one, and its verdict; `right` has their verdicts by question."""
    below = (best.ex or 0.0) - (run.ex or 0.0)
    if run.run_id == best.run_id:
        return below, "best"
    if not {best.run_id, run.run_id} <= right.keys():  # the questions of one of them were removed
        return below, "lower, not tested" if below > 0 else "tied with best"
    (p,) = pairwise_p_values({name: right[name] for name in (best.run_id, run.run_id)}).values()
    verdict = "lower" if p < LEVEL and below > 0 else "tied with best"
    return below, f"{verdict}, p = {p_value(p)}"

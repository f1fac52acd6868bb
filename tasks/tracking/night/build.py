"""Completes an entry of a nightly run: the comparison with its baseline, and the scores of earlier runs."""

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tasks.errors import CrosscheckError
from tasks.scoring.report import Ratio
from tasks.settings.night import Gate
from tasks.tracking.night.baseline import compare_with, previous_run
from tasks.tracking.night.records import Entry, Past
from tasks.tracking.ranking import ORACLE, REROLLED, why_unranked
from tasks.tracking.warehouse.run_names import find_run
from tasks.tracking.warehouse.runs import RunHeader, StoredRun, Warehouse

TREND = 14
"""How many scores a trend has at most."""


def compared(entry: Entry, baselines: Mapping[str, StoredRun], warehouse: Warehouse, gate: Gate) -> Entry:
    """Add the comparison with the baseline, the trend, and the problem of too many questions without an answer.

    Args:
        entry: as the evaluation left it.
        baselines: runs that a user named, by the entry's name.
        warehouse: the results of all runs.
        gate: how many failures are tolerated, and the level of the test.
    """
    if entry.run_id is None:
        return entry
    current, runs = warehouse.read_run(entry.run_id), warehouse.runs()
    header = find_run(entry.run_id, runs)
    entry = replace(entry, rule=current.run.rule, trend=_trend(header, runs))
    if not entry.problem:
        entry = replace(entry, problem=_too_many_failures(entry, len(current.rows), gate))
    if why := why_unranked(current.run.tags, current.run.settings):
        return replace(entry, not_ranked=why)
    baseline = baselines.get(entry.name) or previous_run(header, runs, warehouse)
    if baseline is None:
        return entry
    entry = replace(entry, baseline=baseline.run.run_id)
    try:
        return replace(entry, comparison=compare_with(baseline, current, gate.level))
    except CrosscheckError as error:
        return replace(entry, problem=f"{entry.problem}\n{error}".strip())


def _too_many_failures(entry: Entry, questions: int, gate: Gate) -> str:
    share = entry.unanswered / max(1, questions)
    if share <= gate.tolerated_failures:
        return ""
    return (
        f"{entry.unanswered:,} of {questions:,} questions have no answer ({100 * share:.1f} %; "
        f"{100 * gate.tolerated_failures:g} % are tolerated)."
    )


def _trend(current: RunHeader, runs: Sequence[RunHeader]) -> tuple[Past, ...]:
    """Return the last scores of a combination; a run that was re-run is replaced by its re-run."""
    rerun = {run.tags.get("parent_run_id") for run in runs}
    alike = [
        run
        for run in runs
        if run.run_id == current.run_id
        or (
            run.asks_as(current)
            and run.status == "complete"
            and run.started <= current.started
            and run.run_id not in rerun
            and not {REROLLED, ORACLE} & run.tags.keys()
        )
    ]
    return tuple(
        Past(
            run.run_id,
            run.started.replace(microsecond=0, tzinfo=datetime.UTC),
            Ratio(run.ex_correct, run.ex_total),
        )
        for run in reversed(alike[:TREND])
        if run.ex_correct is not None and run.ex_total
    )

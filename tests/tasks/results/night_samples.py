"""Nights on runs that are made up of which questions are right."""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tasks.core.outcome import Failure
from tasks.results.build_record import record_of
from tasks.results.night import Night, NightEntry, judge
from tasks.results.night_baseline import Baselines, compared
from tasks.results.run_record import NIGHT, RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.choices import Gate
from tests.tasks.results.comparison_samples import with_row

START = datetime.datetime(2026, 11, 21, 1, 30, tzinfo=datetime.UTC)
CAUSES = {"wrong_column": 3, "no_answer": 1}
REFUSED = NightEntry(
    "demo",
    "closed",
    "zero-shot",
    run=None,
    problem="The key was refused.",
    continue_with="crosscheck evaluate --backbone closed",
)


def keep(warehouse: Warehouse, runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Write runs as evaluations do, each an hour after the one before."""
    kept = []
    for hour, stored in enumerate(runs):
        names = {
            "run_id": f"2026112{hour}-013000-00000{hour}",
            "started": START + datetime.timedelta(hours=hour),
        }
        run = stored.model_copy(update=names)
        kept.append(record_of(run, stored.rows, stored.status, metrics={"errors": CAUSES}))
        warehouse.finish(kept[-1])
    return kept


def entry_of(run: RunRecord, **changes: Any) -> NightEntry:
    """What a night's evaluation leaves of a run with these changes."""
    return NightEntry.of_run(run.model_copy(update={"seconds": 75.0, **changes}))


def a_night(
    warehouse: Warehouse,
    runs: Sequence[RunRecord],
    gate: Gate | None = None,
    name: str = "2026-11-21T01:30Z",
    others: Sequence[NightEntry] = (),
    matrix: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Night:
    """A night whose one run is the last of these; the others came before it."""
    gate = gate or Gate()
    entry = compared(entry_of(keep(warehouse, runs)[-1], **changes), Baselines(), warehouse, gate)
    end = START + datetime.timedelta(minutes=40)
    names = {f"{kind}s": [getattr(entry, kind)] for kind in ("benchmark", "backbone", "pipeline")}
    return Night(name, gate, judge(gate, [entry, *others]), START, end, matrix or names)


def unanswered(
    stored: RunRecord, places: int | Iterable[int], message: str = "The endpoint did not answer."
) -> RunRecord:
    """The same run in which an endpoint left questions unanswered."""
    failure = Failure("backbone_error", "preliminary_sql", message, retryable=True)
    for place in (places,) if isinstance(places, int) else places:
        row = stored.rows[place]
        wrong = replace(row.final, correct=dict.fromkeys(row.final.correct, False), status="no_answer")
        outcome = replace(row.outcome, sql=None, failure=failure)
        stored = with_row(stored, place, outcome=outcome, final=wrong)
    return stored


def of_night(name: str, run: RunRecord) -> RunRecord:
    """The same run, made by a night."""
    return run.model_copy(update={"tags": {NIGHT: name}})

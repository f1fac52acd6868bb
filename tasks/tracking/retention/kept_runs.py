"""Which runs are kept, and which may lose all but their scores."""

import datetime
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tasks.core.errors import DataError
from tasks.settings.evaluation import PINNED, Keep, age
from tasks.tracking.night.night import Night
from tasks.tracking.night.pins import Pin
from tasks.tracking.run_record import RunHeader
from tasks.tracking.warehouse.run_names import find_run


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept at one moment."""

    cutoff: datetime.datetime  # what was last used before it, and by no kept run, may be removed
    kept: frozenset[str]  # ids of the runs that are kept
    removable: frozenset[str]  # ids of all other runs
    # when kept runs that are older than the cutoff ran: what was last used then stays
    spans: tuple[tuple[datetime.datetime, datetime.datetime], ...]
    rows: bool = True  # whether the warehouse keeps the questions of all runs

    def keeps(self, used: datetime.datetime) -> bool:
        """Return whether something stays that was last used at a moment."""
        return used >= self.cutoff or any(start <= used <= end for start, end in self.spans)


def retention(
    keep: Keep,
    runs: Sequence[RunHeader],
    nights: Sequence[Night],
    pins: Iterable[Pin] = (),
    now: datetime.datetime | None = None,
) -> Retention:
    """Return what is kept, of runs that are given newest first and of nights that are given the latest first.

    Kept are runs that are young enough or not finished, the latest ones of each benchmark, backbone and pipeline,
    pinned ones, the baselines of nights that are kept, the latest baseline of each benchmark, backbone, pipeline and
    set of questions, pinned baselines, and the runs that a kept run was merged from.
    """
    cutoff = (now or datetime.datetime.now(datetime.UTC)) - age(keep.age)
    by_id = {run.run_id: run for run in runs}
    kept = {run.run_id for run in runs if run.started >= cutoff or run.status == "running"}
    kept |= {run.run_id for run in runs if PINNED in run.tags} | {
        pin.run_id for pin in pins if pin.run_id in by_id
    }
    kept |= _latest(runs, keep.runs) | set(_baselines(nights, runs, cutoff))
    for run_id in list(kept):
        while (run_id := by_id[run_id].tags.get("parent_run_id", "")) in by_id and run_id not in kept:
            kept.add(run_id)
    spans = tuple(_span(by_id[run_id]) for run_id in kept if by_id[run_id].started < cutoff)
    return Retention(cutoff, frozenset(kept), frozenset(by_id.keys() - kept), spans, keep.rows)


def _latest(runs: Sequence[RunHeader], most: int) -> set[str]:
    found: dict[tuple[str, str, str], list[str]] = {}
    for run in runs:
        if run.is_finished:
            found.setdefault((run.benchmark, run.backbone, run.pipeline), []).append(run.run_id)
    return {run_id for ids in found.values() for run_id in ids[:most]}


def _baselines(
    nights: Sequence[Night], runs: Sequence[RunHeader], cutoff: datetime.datetime
) -> Iterable[str]:
    known = {run.run_id: run for run in runs}
    latest: dict[tuple[str, str], str] = {}
    for place, night in enumerate(nights):
        for each in night.entries:
            if (baseline := each.baseline) in known:
                latest.setdefault((each.name, known[baseline].question_set), baseline)
                if night.started >= cutoff:
                    yield baseline
        if place and night.started < cutoff:
            continue
        for reference in (night.matrix.get("baselines") or {}).values():
            with suppress(DataError):
                yield find_run(reference, runs).run_id
    yield from latest.values()


def _span(run: RunHeader) -> tuple[datetime.datetime, datetime.datetime]:
    start = run.started
    return start, start + datetime.timedelta(seconds=(run.seconds or 86_400) + 3_600)

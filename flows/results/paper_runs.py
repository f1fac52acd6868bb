"""Finished runs, with the schemas of their benchmarks, for the papers' tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from flows.runtime.folders import Folders
from tasks.benchmarks.databases import open_benchmark_database
from tasks.core.errors import CrosscheckError, DataError
from tasks.database.schema import Schema
from tasks.scoring.papers.run import PaperRun
from tasks.tracking.evaluation import FINISHED
from tasks.tracking.parameters import flatten
from tasks.tracking.warehouse.stored import StoredRun


def paper_runs(stored: Sequence[StoredRun], folders: Folders) -> tuple[PaperRun, ...]:
    """Return the runs with the schemas of their databases, named A, B, ... in their order.

    Raises:
        DataError: a run is not finished.
    """
    for run in stored:
        if run.status not in FINISHED:
            raise DataError(f"The run {run.run.run_id} is not finished ({run.status}): it has no result yet.")
    return tuple(_paper_run(_letter(place), run, stored[0], folders) for place, run in enumerate(stored))


def _letter(place: int) -> str:
    """Return the name of a run in the tables: A to Z, then A1, B1, ..."""
    return f"{chr(ord('A') + place % 26)}{place // 26 or ''}"


def _paper_run(name: str, stored: StoredRun, first: StoredRun, folders: Folders) -> PaperRun:
    run, rows = stored.run, tuple(row for row in stored.rows if row.executable)
    problem, schemas = "", {}
    try:
        schemas = schemas_of(stored, folders)
    except CrosscheckError as error:
        problem = f"the benchmark's schemas cannot be read: {error}"
    return PaperRun(
        name,
        f"{run.name} on {run.benchmark} ({len(rows):,} questions), run {run.run_id}",
        run.rule,
        rows,
        run.settings,
        schemas,
        problem,
        stored.record.metrics.get("efficiency"),
        run.name,
        _changes(flatten(dict(first.run.settings)), flatten(dict(run.settings))),
    )


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the settings that differ; only the name of a pipeline or backbone of another kind.

    >>> _changes({"pipeline.kind": "a", "pipeline.x": 1, "y": 1}, {"pipeline.kind": "b", "pipeline.name": "c", "y": 2})
    ('pipeline=c', 'y=2')
    """
    others = [
        part for part in ("backbone", "pipeline") if before.get(f"{part}.kind") != now.get(f"{part}.kind")
    ]
    names = [f"{part}={now.get(f'{part}.name', now.get(f'{part}.kind'))}" for part in others]
    changed = [
        f"{key}={now.get(key, 'not set')}"
        for key in {**now, **before}
        if now.get(key) != before.get(key) and key.partition(".")[0] not in others
    ]
    return tuple(sorted([*names, *changed]))


def schemas_of(stored: StoredRun, folders: Folders) -> dict[str, Schema]:
    """Return the schemas of a run's databases, as its evaluation had them.

    Raises:
        CrosscheckError: the benchmark's files cannot be read.
    """
    benchmark = folders.benchmark_of(stored)
    wanted = dict.fromkeys(row.question.database_id for row in stored.rows if row.executable)
    return {
        name: open_benchmark_database(benchmark, name, 0).schema
        if benchmark.exists(name)
        else benchmark.schemas[name]
        for name in wanted
        if benchmark.exists(name) or name in benchmark.schemas
    }

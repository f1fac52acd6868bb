"""Reads finished runs, with the schemas of their benchmarks, for the papers' tables."""

from collections.abc import Sequence
from pathlib import Path

from tasks.benchmarks.benchmark import load_benchmark
from tasks.benchmarks.databases import open_benchmark_database
from tasks.database.schema import Schema
from tasks.errors import CrosscheckError, DataError
from tasks.scoring.papers.run import PaperRun
from tasks.settings.assemble import stored_benchmark
from tasks.settings.home import Home, find_conf
from tasks.tracking.parameters import flatten
from tasks.tracking.warehouse.run_names import find_run
from tasks.tracking.warehouse.runs import StoredRun, Warehouse


def read_paper_runs(names: Sequence[str], data: Path, home: Home) -> tuple[PaperRun, ...]:
    """Read runs in the order in which they are named.

    Raises:
        DataError: there is no such run, or it is not finished.
    """
    warehouse = Warehouse(home.warehouse)
    known = warehouse.runs()
    stored = [warehouse.read_run(find_run(name, known).run_id) for name in names]
    for run in stored:
        if run.summary is None:
            raise DataError(f"The run {run.run.run_id} is not finished ({run.status}): it has no result yet.")
    return tuple(_paper_run(_letter(place), run, stored[0], data, home) for place, run in enumerate(stored))


def _letter(place: int) -> str:
    """Return the name of a run in the tables: A to Z, then A1, B1, ..."""
    return f"{chr(ord('A') + place % 26)}{place // 26 or ''}"


def _paper_run(name: str, stored: StoredRun, first: StoredRun, data: Path, home: Home) -> PaperRun:
    run, rows = stored.run, tuple(row for row in stored.rows if row.executable)
    problem, schemas = "", {}
    try:
        schemas = schemas_of(stored, data, home)
    except CrosscheckError as error:
        problem = f"the benchmark's schemas cannot be read: {error}"
    before, now = flatten(dict(first.run.settings)), flatten(dict(run.settings))
    changes = [
        f"{key}={now.get(key, 'not set')}" for key in {**now, **before} if now.get(key) != before.get(key)
    ]
    return PaperRun(
        name,
        f"{run.name} on {run.benchmark} ({len(rows):,} questions), run {run.run_id}",
        run.rule,
        rows,
        run.settings,
        schemas,
        problem,
        (stored.summary or {}).get("efficiency"),
        tuple(sorted(changes)),
    )


def schemas_of(stored: StoredRun, data: Path, home: Home) -> dict[str, Schema]:
    """Return the schemas of a run's databases, as its evaluation had them.

    Raises:
        CrosscheckError: the benchmark's files cannot be read.
    """
    settings = stored_benchmark(stored.run.settings["benchmark"])
    benchmark = load_benchmark(settings, data=data, home=home.path, conf=find_conf())
    wanted = dict.fromkeys(row.question.database_id for row in stored.rows if row.executable)
    return {
        name: open_benchmark_database(benchmark, name, 0).schema
        if benchmark.exists(name)
        else benchmark.schemas[name]
        for name in wanted
        if benchmark.exists(name) or name in benchmark.schemas
    }

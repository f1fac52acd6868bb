r"""Whether a working folder is as fast after 300 nights as after 3, and how large it becomes. A script, not a test:

    python tests/benchmarks/a_year.py [--nights 300] [--questions 30] [--repeats 3]

Two folders, of 3 nights and of 300, each night with three evaluations of the demo benchmark. Three nights are written
by the code that evaluations and nights use (warehouse, MLflow with traces and artifacts, night files), and a flow runs
for Prefect's records. The other 297 are copies of them, made in the databases, since writing them would take an hour;
their stage results, verdicts and night files are written by the real code.

Then, in turns on both folders: `runs`, `nights show latest`, `compare`, `status`, an evaluation of one question (from
the cache after the first), each a whole process, and the query of MLflow's page of runs. It prints the least CPU
seconds of the repeats, which depend little on what else the machine does, and their ratio; the target is at most 1.5.
Finally the large folder is cleaned as a night does (30 days), and its size is printed by store.
"""

import argparse
import asyncio
import datetime
import shutil
import sqlite3
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from flows.prefect.stage_results import StageDatabase
from tasks.results.build_record import record_of
from tasks.results.mlflow.package import Completion
from tasks.results.mlflow.traces import choose
from tasks.results.mlflow.tracker import Tracker
from tasks.results.night import Night, NightEntry, all_nights, judge, write
from tasks.results.night_baseline import Baselines, compared
from tasks.results.run_record import RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.execution.verdict_cache import VerdictCache, VerdictKey
from tasks.scoring.scores import Verdict
from tasks.settings.choices import Gate
from tasks.settings.home import Home
from tests.benchmarks.parts import crosscheck, processor_time
from tests.tasks.results.samples import make_rows, make_run

PIPELINES = ("zero-shot", "few-shot", "rsl-sql")
TARGET = 1.5
ROWS = 9
"""Runs on MLflow's page: as many as the smaller folder has."""
DAY = datetime.timedelta(days=1)
GATE = Gate()
NOW = datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def run_of(days: int, pipeline: str) -> RunRecord:
    """Return the run of a pipeline so many days ago."""
    started = NOW - days * DAY + PIPELINES.index(pipeline) * datetime.timedelta(minutes=10)
    names = {"benchmark": "demo", "backbone": "offline", "pipeline": pipeline}
    return make_run(run_id=f"{started:%Y%m%d-%H%M%S}-{days:06x}", started=started, tags={}, **names)


def write_nights(home: Home, questions: int) -> None:
    """Write three nights as evaluations do, and run one flow."""
    crosscheck(home.path, "evaluate", "--limit", "30", "--pipeline", "rsl-sql")
    warehouse = Warehouse(home.warehouse)
    for days in (3, 2, 1):
        entries = []
        for pipeline in PIPELINES:
            run, tracker = run_of(days, pipeline), Tracker(home)
            record = record_of(run, make_rows(questions, shift=days))
            tracker.start(run)
            problem = tracker.trace(choose(record, failed=100, sample=20), lambda question, key: None)
            assert not problem, problem
            record = tracker.finish(record, Completion(seconds=60.0))
            warehouse.finish(record)
            entries.append(compared(NightEntry.of_run(record), Baselines(), warehouse, GATE))
        started = NOW - days * DAY
        write(Night(f"{started:%Y-%m-%dT%H:%MZ}", GATE, judge(GATE, entries), started, started), home)


def copy_nights(home: Home, nights: int) -> None:
    """Copy the oldest night until there are so many."""
    copied = [
        Copy(run_of(3, pipeline), run_of(days, pipeline), days)
        for days in range(4, nights + 1)
        for pipeline in PIPELINES
    ]
    copy_warehouse(home, copied)
    copy_mlflow(home, copied)
    copy_prefect(home, copied)
    write_caches(home, nights)
    model = next(night for night in all_nights(home) if night.started == NOW - 3 * DAY)
    for days in range(4, nights + 1):
        started = NOW - days * DAY
        entries = tuple(_copied(entry, run_of(days, entry.pipeline)) for entry in model.entries)
        name = f"{started:%Y-%m-%dT%H:%MZ}"
        write(replace(model, name=name, entries=entries, started=started, finished=started), home)


def _copied(entry: NightEntry, run: RunRecord) -> NightEntry:
    assert entry.run is not None
    names = {"run_id": run.run_id, "started": run.started}
    return replace(entry, run=entry.run.model_copy(update=names))


@dataclass(frozen=True)
class Copy:
    """A run that is to be a copy of another."""

    model: RunRecord
    run: RunRecord
    days: int

    @property
    def mlflow(self) -> str:
        """Its id in MLflow."""
        return f"{self.days:016x}{PIPELINES.index(self.run.pipeline):016x}"


def copy_warehouse(home: Home, copied: Sequence[Copy]) -> None:
    """Copy runs in DuckDB."""
    import duckdb

    with duckdb.connect(str(home.warehouse)) as connection:
        connection.execute(
            "CREATE TEMP TABLE copy (model VARCHAR, new VARCHAR, began TIMESTAMP, mlflow VARCHAR)"
        )
        connection.executemany(
            "INSERT INTO copy VALUES (?, ?, ?, ?)",
            [
                (each.model.run_id, each.run.run_id, each.run.started.replace(tzinfo=None), each.mlflow)
                for each in copied
            ],
        )
        for table in ("questions", "candidates", "stages", "calls"):
            connection.execute(
                f"INSERT INTO {table} SELECT t.* REPLACE (copy.new AS run_id) FROM copy JOIN {table} t "
                "ON t.run_id = copy.model ORDER BY copy.new, t.question_id"
            )
        connection.execute(
            "INSERT INTO runs SELECT t.* REPLACE (copy.new AS run_id, copy.began AS started, copy.began AS finished, "
            "replace(t.run, copy.model, copy.new) AS run, replace(t.record, copy.model, copy.new) AS record) "
            "FROM copy JOIN runs t ON t.run_id = copy.model"
        )


def copy_mlflow(home: Home, copied: Sequence[Copy]) -> None:
    """Copy runs of MLflow with traces and artifacts."""
    path, artifacts = home.path / "mlflow.db", home.path / "mlartifacts"
    with closing(sqlite3.connect(path)) as connection:
        ids = dict(
            connection.execute("SELECT value, run_uuid FROM tags WHERE key = 'crosscheck_run_id'").fetchall()
        )
        connection.execute("CREATE TEMP TABLE copy (model, new, run, suffix, start)")
        connection.executemany(
            "INSERT INTO copy VALUES (?, ?, ?, ?, ?)",
            [
                (
                    ids[each.model.run_id],
                    each.mlflow,
                    each.run.run_id,
                    f"-{each.days}",
                    each.run.started.timestamp() * 1000,
                )
                for each in copied
            ],
        )
        connection.execute(
            "CREATE TEMP TABLE trace AS SELECT request_id AS old, request_id || suffix AS id, new, start, suffix "
            "FROM copy JOIN trace_request_metadata ON key = 'mlflow.sourceRun' AND value = model"
        )
        run = "copy JOIN {} t ON t.run_uuid = copy.model"
        trace, span = (
            "trace JOIN {} t ON t.request_id = trace.old",
            "trace JOIN {} t ON t.trace_id = trace.old",
        )
        for table, source, changed in (
            ("runs", run, {"run_uuid": "new", "start_time": "CAST(start AS INT)"}),
            ("params", run, {"run_uuid": "new"}),
            ("metrics", run, {"run_uuid": "new"}),
            ("latest_metrics", run, {"run_uuid": "new"}),
            (
                "tags",
                run,
                {"run_uuid": "new", "value": "CASE key WHEN 'crosscheck_run_id' THEN run ELSE value END"},
            ),
            ("trace_info", trace, {"request_id": "id", "timestamp_ms": "CAST(start AS INT)"}),
            ("trace_tags", trace, {"request_id": "id"}),
            (
                "trace_request_metadata",
                trace,
                {"request_id": "id", "value": "CASE key WHEN 'mlflow.sourceRun' THEN new ELSE value END"},
            ),
            ("spans", span, {"trace_id": "id"}),
            ("assessments", span, {"trace_id": "id", "assessment_id": "assessment_id || suffix"}),
        ):
            copy_rows(connection, table, source, changed)
        connection.commit()
    for each in copied:
        shutil.copytree(artifacts / ids[each.model.run_id], artifacts / each.mlflow)


def copy_prefect(home: Home, copied: Sequence[Copy]) -> None:
    """Copy a flow run with its task runs."""
    with closing(sqlite3.connect(home.prefect / "prefect.db")) as connection:
        (flow_run,) = connection.execute("SELECT id FROM flow_run").fetchone()
        connection.execute("CREATE TEMP TABLE copy (model, suffix, moment)")
        connection.create_function(
            "copied", 2, lambda id_, of: str(uuid.uuid5(uuid.NAMESPACE_OID, f"{id_}{of}"))
        )
        connection.executemany(
            "INSERT INTO copy VALUES (?, ?, ?)",
            [
                (
                    flow_run,
                    f"-{each.days}-{each.run.pipeline}",
                    f"{each.run.started:%Y-%m-%d %H:%M:%S.000000}",
                )
                for each in copied
            ],
        )
        moments = dict.fromkeys(("start_time", "end_time", "created", "updated"), "moment")
        new = {"id": "copied(t.id, suffix)", "state_id": "copied(t.state_id, suffix)"}
        of_flow_run = {"flow_run_id": "copied(flow_run_id, suffix)"}
        join = "copy JOIN {} t ON t.flow_run_id = copy.model"
        copy_rows(
            connection,
            "task_run_state",
            "copy JOIN task_run r ON r.flow_run_id = copy.model JOIN {} t ON t.task_run_id = r.id",
            {"id": "copied(t.id, suffix)", "task_run_id": "copied(task_run_id, suffix)"},
        )
        copy_rows(connection, "flow_run_state", join, {"id": "copied(t.id, suffix)", **of_flow_run})
        copy_rows(connection, "task_run", join, {**new, **moments, **of_flow_run})
        copy_rows(connection, "flow_run", "copy JOIN {} t ON t.id = copy.model", {**new, **moments})
        connection.commit()


def copy_rows(connection: sqlite3.Connection, table: str, source: str, changed: Mapping[str, str]) -> None:
    """Copy the rows of a table that a join with the runs to make yields, with other values in some columns."""
    columns = [
        name for _, name, *_, hidden in connection.execute(f"PRAGMA table_xinfo({table})") if not hidden
    ]
    listed = ", ".join(f'"{name}"' for name in columns)
    chosen = ", ".join(changed.get(name, f't."{name}"') for name in columns)
    connection.execute(f"INSERT INTO {table} ({listed}) SELECT {chosen} FROM {source.format(table)}")


def write_caches(home: Home, nights: int) -> None:
    """Write stage results and verdicts that only one night used."""

    async def write_results(store: StageDatabase) -> None:
        for number in range(20 * nights):
            await store.write(f"forward_link/{number}", {"value": "x" * 500})

    stages = StageDatabase(home.stage_results)
    asyncio.run(write_results(stages))
    stages.close()
    with VerdictCache(home.verdicts) as verdicts:
        for number in range(20 * nights):
            key = VerdictKey("database", "SELECT 1", f"SELECT {number}", ("bird",), 30.0)
            verdicts[key] = Verdict({"bird": True}, "ok")
    for file, change in (
        (home.stage_results, "UPDATE entry SET used = used - 86400 * (rowid % ?)"),
        (home.verdicts, "UPDATE entry SET used = used - 86400 * (abs(random()) % ?)"),
    ):
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(change, (nights,))
            connection.commit()


def best(repeats: int, small: Callable[[], object], large: Callable[[], object]) -> tuple[float, float]:
    """Return the least CPU seconds of both, child processes included, measured in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for work, found in zip((small, large), times, strict=True):
            before = processor_time() + time.process_time()
            work()
            found.append(processor_time() + time.process_time() - before)
    return min(times[0]), min(times[1])


def mlflow_page(home: Home) -> Callable[[], object]:
    """Return the query of MLflow's page of runs: the latest of an experiment."""
    from mlflow import MlflowClient

    client = MlflowClient(home.mlflow_uri)
    experiment = client.get_experiment_by_name("crosscheck/demo")
    assert experiment is not None

    def ask() -> object:
        return client.search_runs(
            [experiment.experiment_id], order_by=["attributes.start_time DESC"], max_results=ROWS
        )

    return ask


def main() -> None:
    """Build both folders and measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nights", type=int, default=300)
    parser.add_argument("--questions", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small, large = Home(Path(folder) / "small"), Home(Path(folder) / "large")
        small.path.mkdir()
        write_nights(small, given.questions)
        shutil.copytree(small.path, large.path)
        copy_nights(large, given.nights)
        measure(small, large, given)
        clean(large)


def measure(small: Home, large: Home, given: argparse.Namespace) -> None:
    """Print CPU seconds on both folders, and their ratio."""
    last, before = (run_of(days, PIPELINES[-1]).run_id for days in (1, 2))
    commands = {
        "runs": ("runs",),
        "nights show latest": ("nights", "show", "latest"),
        "compare": ("compare", before, last),
        "status": ("status",),
        "evaluate, 1 question": ("evaluate", "--limit", "1", "--pipeline", "zero-shot", "--again"),
    }
    print(f"{'':24} {'3 nights':>10} {f'{given.nights} nights':>12}  ratio")
    for name, words in commands.items():
        found = best(given.repeats, *(partial(crosscheck, home.path, *words) for home in (small, large)))
        print_line(name, *found)
    pages = mlflow_page(small), mlflow_page(large)
    print_line(f"MLflow's page, {ROWS} runs", *best(3 * given.repeats, *pages))


def print_line(name: str, small: float, large: float) -> None:
    """Print one comparison."""
    ratio = large / small
    print(
        f"{name:24} {small:8.2f} s {large:10.2f} s  {ratio:5.2f}{'' if ratio <= TARGET else '  above the target'}"
    )


def clean(home: Home) -> None:
    """Clean the folder as the nightly deployment does, and print its size by store."""
    print("\nbefore `clean --keep 30d`:\n" + crosscheck(home.path, "status"))
    started = time.perf_counter()
    print(crosscheck(home.path, "clean", "--keep", "30d", "--yes"), f"{time.perf_counter() - started:.1f} s")
    print("\nafter:\n" + crosscheck(home.path, "status"))
    print(crosscheck(home.path, "clean", "--keep", "30d", "--rows", "--yes"))


if __name__ == "__main__":
    main()

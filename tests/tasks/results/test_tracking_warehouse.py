"""The warehouse: nothing lost, nothing twice, whoever writes at the same time or dies meanwhile."""

import subprocess
import sys
import threading
import time
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tasks.core.errors import CrosscheckError, DataError
from tasks.core.outcome import Failure, Usage
from tasks.documents.model import Column, Point, Points, Span, Table, TwoSided
from tasks.results.build_record import record_of
from tasks.results.retention import Retention, WarehouseRows
from tasks.results.warehouse import runs
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.candidates import bills_of
from tasks.scoring.scores import Measurement, QuestionScore, Verdict
from tests.tasks.results.samples import make_rows, make_run, verdict

RUN = make_run()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "the home" / "warehouse.duckdb"


def count(path: Path, table: str) -> int:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchall()[0][0]


def test_the_last_sampling_is_known_after_the_questions_of_its_run_were_removed(path: Path) -> None:
    warehouse = Warehouse(path)
    (row,) = make_rows(1)
    fresh = replace(row, outcome=replace(row.outcome, samples=(3,)))
    warehouse.finish(record_of(make_run(run_id="fresh", tags={"attempt": "3"}), (fresh,)))
    warehouse.finish(record_of(RUN, (row,)))
    later = RUN.model_copy(update={"run_id": "later", "tags": {"attempt": "4"}})
    warehouse.start(later)
    found = warehouse.last_sampled(RUN)
    assert found and found.run_id == "fresh", "one that has not finished is continued"
    WarehouseRows("runs", path).remove(
        Retention(RUN.started, frozenset({RUN.run_id}), frozenset({"fresh"}), rows=False)
    )
    assert warehouse.last_sampled(RUN) == found
    assert warehouse.last_sampled(RUN.model_copy(update={"pipeline": "dac"})) is None


def full_row() -> QuestionScore:
    """A question with something in every field that a record has."""
    row = make_rows(5)[4]
    call = replace(
        row.outcome.stages[0].calls[0],
        usage=Usage(1, 2, 3, 4, 5),
        cost_usd=0.25,
        retries=3,
        cached=True,
        cost_source="endpoint",
        from_scratch_usd=0.5,
        list_usd=0.75,
        prompt_cache_usd=0.125,
    )
    stages = (
        replace(
            row.outcome.stages[0],
            calls=(call, call),
            notes=("a", "b"),
            error="it broke",
            value={"a": [None, 1.5]},
            replies=3,
            unreadable=2,
            fallback="nothing was linked",
            skipped="no eliminator",
        ),
        *row.outcome.stages[1:],
    )
    failure = Failure("backbone_error", "2", "Its quota is gone.", retryable=True, fatal=True)
    outcome = replace(row.outcome, stages=stages, failure=failure, notes=("n", "\N{SNOWMAN} 'quoted'"))
    return replace(
        row,
        outcome=outcome,
        final=Verdict(
            {"bird": True, "subset": False}, "timeout", "stopped", 7, "gold_error", 1.5, 9, "missing_rows"
        ),
        stages={**row.stages, "9_unreached": verdict(False, "error")},
        executable=False,
    )


def test_a_run_comes_back_as_it_was(path: Path) -> None:
    full = full_row()
    outcome = replace(full.outcome, question_id="40")
    full = replace(full, question=replace(full.question, id="40"), outcome=outcome)
    for record in (full.final, outcome, outcome.failure, outcome.stages[0], outcome.stages[0].calls[0]):
        empty = [each.name for each in fields(record) if getattr(record, each.name) in (None, "", (), {})]
        assert empty == [], "full_row has something in every field"
    rows = (*make_rows(40), full)
    record = record_of(RUN, rows, seconds=1.5)
    Warehouse(path).finish(record)
    stored = Warehouse(path).read_run(RUN.run_id)
    assert stored.rows == rows
    assert stored.status == "complete"
    assert stored == record


def test_a_request_that_was_sent_again_for_an_unreadable_reply_is_billed_after_the_warehouse_too(
    path: Path,
) -> None:
    (row,) = make_rows(1)
    stage = next(stage for stage in row.outcome.stages if stage.calls)
    first = replace(stage.calls[0], round=0, request="first")
    stage = replace(
        stage, label=f"{stage.stage} (candidate 1)", calls=(first, replace(first, round=1, request="second"))
    )
    row = replace(row, outcome=replace(row.outcome, stages=(stage,)))
    Warehouse(path).finish(record_of(RUN, (row,)))
    (stored,) = Warehouse(path).read_run(RUN.run_id).rows
    assert bills_of(stored.outcome.stages) == bills_of((stage,))
    assert bills_of((stage,))[0].calls == 2


def test_the_tables_of_metrics_come_back_as_they_were(path: Path) -> None:
    warehouse = Warehouse(path)
    point = Point(20.0, 9.5, 37.3, "b", "k = 3")
    cells = (
        ("wrong_join", "3"),
        None,
        (Span("all", "strong"), Points((point,), "20 %")),
        ("", TwoSided(1, 2, 4, "")),
    )
    tables = (Table("By kind", ("kind", Column("questions", "plot", axis=(0.0, 100.0))), cells, first=3),)
    warehouse.finish(record_of(RUN, make_rows(2), measurements={"kinds": Measurement(tables=tables)}))
    assert warehouse.tables_of(RUN.run_id) == tables
    assert warehouse.tables_of("another") == ()
    with duckdb.connect(str(path)) as connection:  # as an earlier release wrote it
        connection.execute("UPDATE runs SET run = json_merge_patch(run, '{\"tables\": null}')")
    assert warehouse.tables_of(RUN.run_id) == ()


def test_questions_written_again_replace_themselves(path: Path) -> None:
    warehouse, rows = Warehouse(path), make_rows(20)
    warehouse.start(RUN)
    warehouse.append_questions(RUN, rows[:12])
    changed = replace(
        rows[3], outcome=replace(rows[3].outcome, sql="SELECT 2", stages=rows[3].outcome.stages[:1])
    )
    warehouse.append_questions(RUN, [changed, *rows[12:]])
    stored = warehouse.read_run(RUN.run_id)
    assert stored.rows == (*rows[:3], changed, *rows[4:])
    assert stored.status == "running"
    assert (stored.total, stored.scores) == (None, {})


@pytest.mark.parametrize("at_a_time", [1, 7, 20, 21])
def test_all_batches_of_a_run_are_written_in_benchmark_order(
    at_a_time: int, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "QUESTIONS_AT_A_TIME", at_a_time)
    warehouse, rows = Warehouse(path), make_rows(20)[::-1]
    warehouse.start(RUN)
    warehouse.append_questions(RUN, rows[5:])
    assert count(path, "questions") == 15
    warehouse.finish(record_of(RUN, rows))
    assert warehouse.read_run(RUN.run_id).rows == rows


def test_a_batch_that_fails_leaves_what_was_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "QUESTIONS_AT_A_TIME", 7)
    warehouse, rows = Warehouse(path), make_rows(20)
    warehouse.finish(record_of(RUN, rows))
    broken = replace(rows[12], outcome=replace(rows[12].outcome, attempts="many"))  # type: ignore[arg-type]
    with pytest.raises(Exception, match="many"):
        warehouse.finish(record_of(RUN, (*rows[:12], broken)))
    assert warehouse.read_run(RUN.run_id).rows == rows


def test_runs_do_not_mix_and_a_run_that_is_finished_again_replaces_itself(path: Path) -> None:
    warehouse, last = Warehouse(path), make_rows(8)
    for run, finished in (
        (RUN, make_rows(10)), (make_run(run_id="another"), make_rows(10, shift=3)), (RUN, last), (RUN, last),
    ):  # fmt: skip
        warehouse.finish(record_of(run, finished))
    assert warehouse.read_run("another").rows == make_rows(10, shift=3)
    assert warehouse.read_run(RUN.run_id).rows == last
    assert {header.run_id for header in warehouse.runs()} == {RUN.run_id, "another"}
    rows = (*last, *make_rows(10, shift=3))
    assert count(path, "calls") == sum(len(stage.calls) for row in rows for stage in row.outcome.stages)


def test_the_verdicts_before_a_run_are_those_of_the_last_one_of_the_same_kind(path: Path) -> None:
    warehouse, now = Warehouse(path), make_run(run_id="now", started=RUN.started + timedelta(days=3))
    assert warehouse.verdicts_before(now) == {}, "there is no file"
    rows = make_rows(10)
    warehouse.finish(record_of(RUN, rows))
    later = {"run_id": "another", "started": RUN.started + timedelta(days=1)}
    for number, change in enumerate(({"rule": "spider"}, {"pipeline": "dac"}, {"revision": "2"})):
        other = make_run(**later | {"run_id": f"another-{number}"} | change)
        warehouse.finish(record_of(other, make_rows(10, shift=3)))
    expected = {row.question.id: row.final.correct["bird"] for row in rows if row.final.correct}
    assert warehouse.verdicts_before(now) == expected and expected


def test_an_unknown_run_is_named_with_the_nearest_one(path: Path) -> None:
    with pytest.raises(DataError, match="has not been written yet"):
        Warehouse(path).read_run("x")
    assert Warehouse(path).runs() == ()
    Warehouse(path).start(RUN)
    with pytest.raises(DataError, match=f'Did you mean "{RUN.run_id}"'):
        Warehouse(path).read_run(RUN.run_id[:-1])


def test_an_interrupted_run_keeps_its_questions(path: Path) -> None:
    warehouse = Warehouse(path)
    warehouse.start(RUN)
    warehouse.append_questions(RUN, make_rows(3))
    warehouse.abandon(RUN.run_id, "interrupted")
    assert warehouse.read_run(RUN.run_id).status == "interrupted"
    assert len(warehouse.read_run(RUN.run_id).rows) == 3


HOLDER = """
import duckdb, sys
held = duckdb.connect(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    """Start a process that holds the file until its standard input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    return process


def test_a_writer_waits_for_its_turn_and_whoever_holds_the_file_too_long_is_named(path: Path) -> None:
    Warehouse(path).start(RUN)
    with holder(path) as process:
        with pytest.raises(CrosscheckError, match=rf"in use by .*PID {process.pid}\)"):
            Warehouse(path, wait_s=0.0).append_questions(RUN, make_rows(3))
        threading.Timer(0.5, process.stdin.close).start()
        Warehouse(path, wait_s=300).append_questions(RUN, make_rows(3))
    assert len(Warehouse(path).read_run(RUN.run_id).rows) == 3


WRITER = """
import sys
from pathlib import Path
from tasks.results.warehouse.runs import Warehouse
from tests.tasks.results.samples import make_rows, make_run
run, warehouse = make_run(run_id=sys.argv[2]), Warehouse(Path(sys.argv[1]))
warehouse.start(run)
rows = make_rows(60)
for start in range(0, 60, 10):
    warehouse.append_questions(run, rows[start:start + 10])
    print(start, flush=True)
"""


def writer(path: Path, run_id: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), run_id], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.slow
def test_several_processes_write_at_once(path: Path) -> None:
    processes = [writer(path, name) for name in ("a", "b", "c")]
    assert [process.wait() for process in processes] == [0, 0, 0]
    for name in "abc":
        assert Warehouse(path).read_run(name).rows == make_rows(60)


def test_no_other_process_sees_the_file_before_it_is_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = duckdb.connect

    def creating(name: str = ":memory:", **options: Any) -> duckdb.DuckDBPyConnection:
        assert name != str(path) or path.stat().st_size > 0, (
            "DuckDB locks a file only after it has created it"
        )
        return connect(name, **options)

    monkeypatch.setattr(duckdb, "connect", creating)
    Warehouse(path).start(RUN)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_removed_file_leaves_nothing_to_the_one_that_follows(path: Path) -> None:
    Warehouse(path).start(RUN)
    path.unlink()
    path.with_name(f"{path.name}.wal").write_bytes(b"changes of the removed file")
    Warehouse(path).start(RUN)
    assert len(Warehouse(path).runs()) == 1


def test_a_killed_writer_leaves_whole_questions_behind(path: Path) -> None:
    process = writer(path, "killed")
    for _ in range(3):
        process.stdout.readline()
    process.kill()
    process.wait()
    found = Warehouse(path).read_run("killed").rows
    assert len(found) >= 30
    assert len(found) % 10 == 0
    assert found == make_rows(60)[: len(found)]


@pytest.mark.slow
def test_a_whole_benchmark_is_written_fast(path: Path) -> None:
    names = tuple(f"{number}_stage" for number in range(1, 10))
    rows = make_rows(1534, names)
    Warehouse(path).start(RUN)
    begun = time.process_time()
    Warehouse(path).finish(record_of(RUN, rows))
    assert time.process_time() - begun < 10, "0.5 s on two idle cores"
    assert count(path, "stages") == 9 * sum(row.outcome.failure is None for row in rows)


def test_a_file_that_was_replaced_while_it_was_opened_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "warehouse.duckdb"
    warehouse = Warehouse(path)
    warehouse.finish(record_of(make_run(), make_rows(3)))
    smaller = path.with_suffix(".smaller")
    smaller.write_bytes(path.read_bytes())
    really, opened = duckdb.connect, []

    def connect(*arguments: Any, **named: Any) -> Any:
        connection = really(*arguments, **named)
        if not opened:
            smaller.replace(path)
        opened.append(path.stat().st_ino)
        return connection

    monkeypatch.setattr(duckdb, "connect", connect)
    warehouse.start(make_run(run_id="written-just-then"))
    assert len(opened) == 2
    assert {run.run_id for run in warehouse.runs()} == {make_run().run_id, "written-just-then"}


def test_what_the_warehouse_says_of_its_file_ends_before_the_advice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Is a directory\. If the file is damaged"):
        Warehouse(tmp_path).runs()

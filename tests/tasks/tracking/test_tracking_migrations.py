"""Migrations of the warehouse: files of earlier releases keep their rows, and a new column costs one function."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from tasks.errors import DataError
from tasks.tracking.warehouse import migrations
from tasks.tracking.warehouse.migrations import MIGRATIONS
from tasks.tracking.warehouse.runs import Warehouse
from tasks.tracking.warehouse.views import query, views
from tests.tasks.tracking.earlier_release import ABANDONED, RUN, WRITTEN, working_folder
from tests.tasks.tracking.samples import make_report, make_run, report_of


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A warehouse that commit 39ba542 wrote."""
    return working_folder(tmp_path).warehouse


@pytest.fixture
def one_more(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A later release, which adds a column for a field that the record of a call has already."""

    def m999_round(connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute("ALTER TABLE calls ADD COLUMN round BIGINT DEFAULT 0")

    monkeypatch.setitem(MIGRATIONS, "m999_round", m999_round)
    for cached in (migrations.columns_of, views):
        cached.cache_clear()
    yield
    for cached in (migrations.columns_of, views):
        cached.cache_clear()


def all_of(path: Path, sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(sql).fetchall()


def test_every_row_of_an_earlier_release_is_read_as_it_was_written(old: Path) -> None:
    before = {
        file.stem: all_of(old, f"SELECT count(*) FROM {file.stem}") for file in WRITTEN.glob("*.parquet")
    }
    assert len(before) == 6
    stored = Warehouse(old).read_run(RUN)
    assert stored.rows == make_report(12).rows
    assert stored.run == make_run(engine="SQLite 3.40.1")
    assert Warehouse(old).read_run(ABANDONED).status == "abandoned"
    assert len(Warehouse(old).runs()) == 4
    assert {table: all_of(old, f"SELECT count(*) FROM {table}") for table in before} == before


def test_a_file_records_the_migrations_it_went_through_once_each(old: Path) -> None:
    for _ in range(2):
        Warehouse(old).runs()
    names = [row[0] for row in all_of(old, "SELECT name FROM crosscheck_migrations ORDER BY applied, name")]
    assert names == list(MIGRATIONS) == sorted(MIGRATIONS)
    Warehouse(fresh := old.parent / "fresh.duckdb").start(make_run())
    assert [row[0] for row in all_of(fresh, "SELECT name FROM crosscheck_migrations")] == names


def test_an_old_file_ends_with_the_columns_of_a_new_one(old: Path) -> None:
    columns = "SELECT table_name, column_name, data_type FROM duckdb_columns() ORDER BY ALL"
    Warehouse(old).runs()
    Warehouse(fresh := old.parent / "fresh.duckdb").start(make_run())
    assert all_of(old, columns) == all_of(fresh, columns)


def test_no_error_is_null(old: Path) -> None:
    assert all_of(old, "SELECT count(*) FROM questions WHERE error = ''") != [(0,)]
    wrong = query(old, "SELECT count(*) FROM questions WHERE error IS NOT NULL AND status = 'ok'")
    assert wrong.rows == ((0,),)
    Warehouse(old).finish(make_run(run_id="new"), make_report(5), {})
    for view in ("questions", "candidates", "stages"):
        assert query(old, f"SELECT count(*) FROM {view} WHERE error = ''").rows == ((0,),)


def test_a_file_that_needs_no_migration_is_not_written_by_reading(old: Path) -> None:
    Warehouse(old).runs()
    before = old.read_bytes()
    Warehouse(old).read_run(RUN)
    assert old.read_bytes() == before


def test_a_migration_that_fails_leaves_the_file_as_it_was(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def m999_broken(connection: duckdb.DuckDBPyConnection) -> None:
        connection.execute("DELETE FROM questions")
        connection.execute("ALTER TABLE nothing ADD COLUMN x BIGINT")

    with monkeypatch.context() as patched:
        patched.setitem(MIGRATIONS, "m999_broken", m999_broken)
        with pytest.raises(DataError, match="cannot be used"):
            Warehouse(old).runs()
    assert Warehouse(old).read_run(RUN).rows == make_report(12).rows


def test_a_release_that_lacks_a_migration_of_the_file_refuses_it(
    old: Path, one_more: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Warehouse(old).runs()
    monkeypatch.delitem(MIGRATIONS, "m999_round")
    for use in (Warehouse(old).runs, lambda: Warehouse(old).start(make_run())):
        with pytest.raises(DataError, match="newer release, which applied m999_round"):
            use()


def test_a_release_before_there_were_migrations_refuses_the_file(old: Path) -> None:
    Warehouse(old).runs()
    assert all_of(old, "SELECT version FROM crosscheck_schema") == [(2,)]


def test_a_column_that_a_record_has_is_added_by_one_migration(old: Path, one_more: None) -> None:
    row = make_report(1).rows[0]
    stage = row.outcome.stages[0]
    asked_again = replace(stage, calls=(replace(stage.calls[0], round=3),))
    row = replace(row, outcome=replace(row.outcome, stages=(asked_again,)))
    Warehouse(old).finish(make_run(run_id="new"), report_of((row,)), {})
    assert Warehouse(old).read_run("new").rows == (row,)
    assert Warehouse(old).read_run(RUN).rows == make_report(12).rows
    assert list(views()["calls"].columns)[-1] == "round"
    assert query(old, "SELECT round FROM calls WHERE run_id = 'new'").rows == ((3,),)

"""Templates of libraries' databases: made by the library's own migrations once, copied from then on."""

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from flows.prefect import prefect_app
from flows.prefect.prefect_app import create_database
from tasks.database import sqlite_files as template
from tasks.database.sqlite_files import Template
from tasks.results.mlflow.store import TEMPLATE, create_store, find_store
from tasks.settings.home import Home
from tests.support.command_line import ROOT

pytestmark = pytest.mark.slow


def schema(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return sorted(line.strip().rstrip(",") for sql in connection.iterdump() for line in sql.splitlines())


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "crosscheck"


MIGRATED_BY_PREFECT = """
import sys; from pathlib import Path; from flows.prefect.prefect_app import migrate
migrate(Path(sys.argv[1]))
"""


def test_two_processes_migrate_prefects_database_once_and_then_copy_it(tmp_path: Path, cache: Path) -> None:
    first = tmp_path / "first" / "prefect.db"
    create_database(first)
    assert not first.exists()
    environment = os.environ | {"PREFECT_HOME": str(first.parent), "PYTHONPATH": str(ROOT)}
    program = [sys.executable, "-c", MIGRATED_BY_PREFECT, str(first)]
    migrating = [subprocess.Popen(program, env=environment, stderr=subprocess.PIPE) for _ in range(2)]
    assert [process.communicate()[1] for process in migrating] == [b"", b""]
    assert [file.name for file in cache.iterdir()] == [prefect_app.TEMPLATE.file.name]
    second = tmp_path / "second" / "prefect.db"
    create_database(second)
    assert schema(second) == schema(first)
    assert "alembic_version" in " ".join(schema(second))


def test_mlflows_store_is_migrated_once_and_then_copied(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = find_store(Home(tmp_path / "first"))
    names = [first.client().get_experiment("0").name]
    assert [file.name for file in cache.iterdir()] == [TEMPLATE.file.name]
    monkeypatch.setattr(Template, "keep", lambda *_: pytest.fail("it is made again"))
    second = find_store(Home(tmp_path / "second"))
    found = second.client().get_experiment("0")
    assert [found.name] == names == ["Default"]
    assert found.artifact_location == (tmp_path / "second" / "mlartifacts" / "0").as_uri()
    stores = (first.sqlite_file, second.sqlite_file)
    tables = [[line for line in schema(each) if "INSERT" not in line] for each in stores if each]
    assert tables[0] == tables[1]
    assert {file.name for file in (tmp_path / "second").iterdir()} == {"mlflow.db", "mlflow.db.checked"}


def test_another_release_has_a_template_of_its_own(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = prefect_app.TEMPLATE.file
    monkeypatch.setattr(template, "version", lambda _: "0.0")
    assert prefect_app.TEMPLATE.file != before


def test_a_damaged_template_is_removed_and_nothing_is_copied(tmp_path: Path, cache: Path) -> None:
    kept = Template("mlflow").file
    cache.mkdir(parents=True)
    for content in (b"no database", b""):
        kept.write_bytes(content or b"SQLite format 3\0" + bytes(4080))
        assert not Template("mlflow").copy(tmp_path / "new.db")
        assert not kept.exists() and not (tmp_path / "new.db").exists()


def test_a_cache_folder_that_cannot_be_written_costs_only_time(tmp_path: Path, cache: Path) -> None:
    cache.parent.write_text("a file where the folder belongs")
    path = tmp_path / "mlflow.db"
    create_store(path)
    assert stat.S_ISREG(path.stat().st_mode)
    assert find_store(Home(tmp_path)).client().get_experiment("0").name == "Default"


@pytest.mark.parametrize("create", [create_database, create_store])
def test_a_database_that_exists_stays(tmp_path: Path, create: object) -> None:
    database = tmp_path / "one.db"
    database.write_bytes(b"content")
    create(database)  # type: ignore[operator]
    assert database.read_bytes() == b"content"

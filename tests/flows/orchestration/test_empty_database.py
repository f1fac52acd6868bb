"""Prefect's database made from its schema is what Prefect's migrations make."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.orchestration.empty_database import create_database
from tasks.database.sqlite import schema_copy
from tasks.database.sqlite.schema_copy import dump

MIGRATE = (
    "import sys; from pathlib import Path; from flows.orchestration.empty_database import migrate; "
    "from tasks.database.sqlite.schema_copy import dump; print(dump(migrate(Path(sys.argv[1]))), end='')"
)


def clauses(sql: str) -> list[str]:
    """Return the lines in an order of their own: that of a table's constraints differs from migration to migration."""
    return sorted(line.strip().rstrip(",") for line in sql.splitlines())


def test_the_copy_is_what_the_migrations_of_the_installed_release_make(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MIGRATE, str(tmp_path)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PREFECT_")}
    migrated = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    made = tmp_path / "made" / "prefect.db"
    made.parent.mkdir()
    assert create_database(made), 'write the copy with "python -m flows.orchestration.empty_database"'
    assert clauses(dump(made)) == clauses(migrated.stdout)


def test_a_database_that_exists_stays(tmp_path: Path) -> None:
    database = tmp_path / "prefect.db"
    database.write_bytes(b"content")
    assert create_database(database)
    assert database.read_bytes() == b"content"
    assert list(tmp_path.iterdir()) == [database]


def test_another_release_of_prefect_migrates_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_copy, "version", lambda _: "0.0")
    assert not create_database(tmp_path / "prefect.db")
    assert list(tmp_path.iterdir()) == []

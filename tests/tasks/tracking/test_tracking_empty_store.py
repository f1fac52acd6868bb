"""MLflow's store made from its schema is what MLflow's migrations make."""

import subprocess
import sys
from pathlib import Path

import pytest

from tasks.database.sqlite import schema_copy
from tasks.database.sqlite.schema_copy import dump
from tasks.settings.home import Home
from tasks.tracking.mlflow.empty_store import SCHEMA, create_store
from tasks.tracking.mlflow.store import find_store

MIGRATE = (
    "import sys; from pathlib import Path; from tasks.tracking.mlflow.empty_store import migrate; "
    "from tasks.database.sqlite.schema_copy import dump; print(dump(migrate(Path(sys.argv[1]))), end='')"
)


def test_the_copy_is_what_the_migrations_of_the_installed_release_make(tmp_path: Path) -> None:
    migrated = subprocess.run(
        [sys.executable, "-c", MIGRATE, str(tmp_path)], capture_output=True, text=True, check=True
    )
    made = tmp_path / "made.db"
    SCHEMA.apply(made)
    assert made.exists(), 'write the copy with "python -m tasks.tracking.mlflow.empty_store"'
    assert sorted(dump(made).splitlines()) == sorted(migrated.stdout.splitlines())


@pytest.mark.parametrize("release", ["installed", "another"])
def test_a_new_store_is_whole_whatever_the_release(
    release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if release == "another":
        monkeypatch.setattr(schema_copy, "version", lambda _: "0.0")
    store = find_store(Home(tmp_path))
    default = store.client().get_experiment("0")
    assert (default.name, default.artifact_location) == ("Default", (tmp_path / "mlartifacts" / "0").as_uri())
    assert {file.name for file in tmp_path.iterdir()} == {"mlflow.db", "mlflow.db.checked"}


def test_the_store_of_the_process_that_is_first_stays(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    path.write_bytes(b"content")
    create_store(path)
    assert path.read_bytes() == b"content"

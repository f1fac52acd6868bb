"""MLflow's SQLite store without runs.

`python -m tasks.tracking.mlflow.empty_store` writes the copy of its schema for the installed release.
"""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from tasks.database.sqlite.schema_copy import SchemaCopy
from tasks.files import atomic_create

SCHEMA = SchemaCopy("mlflow", Path(__file__).parent)


def create_store(path: Path) -> None:
    """Create MLflow's SQLite store; if another process creates it meanwhile, that one stays."""
    with atomic_create(path) as draft:
        SCHEMA.apply(draft)
        _open(draft, path.parent / "mlartifacts")


def migrate(folder: Path) -> Path:
    """Have the installed release of MLflow make its store in a folder; return its file, without experiments."""
    path = folder / "mlflow.db"
    _open(path, folder / "mlartifacts")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM experiments")
    return path


def _open(path: Path, artifacts: Path) -> None:
    """Open a store, whereupon MLflow makes the tables that are missing, and its default experiment."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = SqlAlchemyStore(f"sqlite:///{path}", artifacts.as_uri())  # type: ignore[no-untyped-call]
    store.engine.dispose()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        SCHEMA.write(migrate(Path(temporary)))

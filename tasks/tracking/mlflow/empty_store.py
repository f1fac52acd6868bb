"""MLflow's SQLite store without runs."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tasks.core.files import atomic_create
from tasks.database.sqlite.template import Template

TEMPLATE = Template("mlflow")


def create_store(path: Path) -> None:
    """Create MLflow's SQLite store; if another process creates it meanwhile, that one stays."""
    artifacts = path.parent / "mlartifacts"
    with atomic_create(path) as draft:
        if not TEMPLATE.copy(draft):
            _open(draft, artifacts)
            with closing(sqlite3.connect(draft)) as connection, connection:
                connection.execute("DELETE FROM experiments")  # the default one names its folder of artifacts
            TEMPLATE.keep(draft)
        _open(draft, artifacts)


def _open(path: Path, artifacts: Path) -> None:
    """Open a store, whereupon MLflow makes the tables that are missing, and its default experiment."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    store = SqlAlchemyStore(f"sqlite:///{path}", artifacts.as_uri())  # type: ignore[no-untyped-call]
    store.engine.dispose()

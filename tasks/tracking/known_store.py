"""SQLite stores that MLflow need not open before an evaluation begins, since they are known to be usable."""

import sqlite3
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path

SUFFIX = ".checked"
"""Suffix of the file beside a store that says which release of MLflow has opened it."""


def is_known(path: Path, experiment: str = "") -> bool:
    """Return whether the installed release of MLflow can use a store, without importing MLflow (seconds).

    A store that does not exist will be made. If the experiment was deleted in MLflow, the answer is False.
    """
    if not path.exists():
        return path.parent.is_dir()
    layout = _layout(path, experiment)
    try:
        return bool(layout) and _record(path).read_text(encoding="utf-8") == layout
    except OSError:
        return False


def remember(path: Path) -> None:
    """Record that the installed release of MLflow has opened a store."""
    if layout := _layout(path):
        with suppress(OSError):  # it is then opened again before the next evaluation
            _record(path).write_text(layout, encoding="utf-8")


def _layout(path: Path, experiment: str = "") -> str:
    """Return MLflow's release and the version of the store's tables; "" if it is unknown or the experiment deleted."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)) as connection:
            (tables,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
            query = "SELECT count(*) FROM experiments WHERE name = ? AND lifecycle_stage = 'deleted'"
            (deleted,) = connection.execute(query, (experiment,)).fetchone()
    except (sqlite3.Error, TypeError):
        return ""
    return "" if deleted else f"{version('mlflow')} {tables}"


def _record(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)

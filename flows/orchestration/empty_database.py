"""Prefect's SQLite database without content, made from a copy of its schema instead of by a hundred migrations.

The migrations take as long as everything else that the first command in a working folder does. The copy is of one
release of Prefect and used with that release only; with another, Prefect's server migrates as it always does.

`python -m flows.orchestration.empty_database` writes the copy for the installed release.
"""

import asyncio
import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent


def schema_file(release: str) -> Path:
    """Return the file with the schema of a release of Prefect; there need not be one."""
    return HERE / f"prefect-{release}.sql"


def create_database(path: Path) -> bool:
    """Create Prefect's database if there is none; return whether there is one now.

    It is made aside and put in its place whole: two evaluations may start at once, and a killed one leaves nothing.
    """
    schema = schema_file(version("prefect"))
    if path.exists() or not schema.exists():
        return path.exists()
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}-making-")
    os.close(descriptor)
    aside = Path(name)
    try:
        with closing(sqlite3.connect(aside)) as connection:
            connection.executescript(schema.read_text(encoding="utf-8"))
        with suppress(OSError):  # made by another process meanwhile, or a file system without links
            path.hardlink_to(aside)
    finally:
        aside.unlink()
    return path.exists()


def dump(path: Path) -> str:
    """Return the SQL that makes a copy of a database."""
    with closing(sqlite3.connect(path)) as connection:
        return "\n".join(connection.iterdump()) + "\n"


def _migrate(home: Path) -> Path:
    """Have the installed release of Prefect make its database in a folder; return its file."""
    os.environ["PREFECT_HOME"] = str(home)
    from prefect.server.database import provide_database_interface

    asyncio.run(provide_database_interface().create_db())
    return home / "prefect.db"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sql = dump(_migrate(Path(folder)))
    for old in HERE.glob("prefect-*.sql"):
        old.unlink()
    schema_file(version("prefect")).write_text(sql, encoding="utf-8")

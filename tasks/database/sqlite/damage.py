"""Damaged SQLite files whose content can be made anew: recognised, renamed, and said."""

import logging
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

log = logging.getLogger(__name__)
"""Its warnings are printed on the terminal, too."""

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file's content is at fault, and not a lock, a permission or the disk."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def set_aside(path: Path, what: str, loss: str) -> None:
    """Rename a damaged file, remove its journals, and say what is wrong with it and what follows from its loss."""
    aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
    path.rename(aside)
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    log.warning(
        "%s is damaged (%s). It was renamed to %s, and a new file is begun: %s.", path, what, aside.name, loss
    )


def damage(path: Path) -> str:
    """Return what is wrong with a SQLite file, as far as a look at its beginning and its size tells; "" if nothing is.

    Takes milliseconds, whatever the file's size; SQLite's own check reads all of it.
    """
    if not path.exists():
        return ""
    try:
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5)
        ) as connection:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            pages, size = (
                connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size")
            )
    except sqlite3.Error as error:
        return str(error) if is_damage(error) else ""
    journal = path.with_name(f"{path.name}-wal")
    cut = path.stat().st_size < pages * size and not (journal.exists() and journal.stat().st_size)
    return "it is cut off" if cut else ""

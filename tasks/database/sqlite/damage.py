"""Damaged SQLite files whose content can be made again: recognised, renamed and reported."""

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

log = logging.getLogger(__name__)
"""Its warnings are printed on the terminal, too."""

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file's content is at fault, and not a lock, a permission or the disk."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def file_id(path: Path) -> tuple[int, int] | None:
    """Return device and number of the file at a path, which a rename keeps; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def renew_if_damaged(path: Path, loss: str) -> bool:
    """Set a file aside if a look at it shows damage; return whether it did.

    Raises:
        OSError: it cannot be renamed.
    """
    seen = file_id(path)
    what = damage(path)
    return bool(what) and set_aside(path, seen, what, loss)


def set_aside(path: Path, seen: tuple[int, int] | None, what: str, loss: str) -> bool:
    """Rename a damaged file, remove its journals, and say what is wrong with it and what follows from its loss.

    Args:
        path: the file.
        seen: its `file_id` from before it was opened. Another file at the path is the new one of another process that
            met the same damage: it stays.
        what: what is wrong.
        loss: what follows.

    Returns:
        Whether this process renamed it.

    Raises:
        OSError: it cannot be renamed.
    """
    with _locked(path.parent):
        if seen is None or file_id(path) != seen:
            return False
        aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
        path.rename(aside)
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
    log.warning(
        "%s is damaged (%s). It was renamed to %s, and a new file is begun: %s.", path, what, aside.name, loss
    )
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let no other process rename damaged files of a folder while the block runs."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


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
        journal = path.with_name(f"{path.name}-wal")
        cut = path.stat().st_size < pages * size and not (journal.exists() and journal.stat().st_size)
    except sqlite3.Error as error:
        return str(error) if is_damage(error) else ""
    except FileNotFoundError:  # set aside meanwhile
        return ""
    return "it is cut off" if cut else ""

"""A SQLite file on disk: whether it can be read without its journal, how to open it unchanged, and damaged files.

Databases are opened `immutable`: SQLite then takes no lock, looks for no journal and writes no file beside
the database. What another program has committed to a write-ahead log, or is about to roll back, would be
missed, so such a file is refused until the log is empty.

The migrations of Prefect and MLflow take seconds. They run once for each release of these libraries: the new, empty
database is copied into the user's cache folder, and every later working folder begins with that copy.
"""

import fcntl
import logging
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import platformdirs

from tasks.core.errors import DataError
from tasks.core.files import atomic_create, file_size

MAGIC = b"SQLite format 3\x00"
HOT_JOURNAL = bytes.fromhex("d9d505f920a163d7")


def read_only_uri(path: Path) -> str:
    """Return the URI that opens a database for reading only, with any characters in its path."""
    return f"{path.absolute().as_uri()}?mode=ro&immutable=1"


def tolerant_text(raw: bytes) -> str:
    r"""Read text that may not be UTF-8; a bad byte becomes `\xNN`, so different values stay different."""
    return raw.decode("utf-8", "backslashreplace")


def require_database(path: Path, database_id: str) -> None:
    """Make sure that a file is a SQLite database (an empty file is one), and complete without a journal beside it."""
    if not path.is_file():
        problem = "is a folder" if path.is_dir() else "does not exist"
        raise DataError(
            f'Database "{database_id}": {path} {problem}. Check the benchmark\'s `databases` folder and the '
            "data location (--data or CROSSCHECK_DATA)."
        )
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
    except OSError as error:
        raise DataError(f'Database "{database_id}": {path} cannot be read ({error.strerror}).') from error
    if head not in (b"", MAGIC):
        advice = "A download that broke off, or a Git LFS pointer, looks like this: fetch the file again."
        if path.suffix.lower() in (".csv", ".parquet"):
            advice = "CSV and Parquet files are read from a folder: name the folder, not a file in it."
        raise DataError(
            f'Database "{database_id}": {path} is not a SQLite database (it begins with {head!r}). {advice}'
        )
    # a write-ahead log or a hot journal; an empty log does no harm
    for ending, beginning in (("-wal", b""), ("-journal", HOT_JOURNAL)):
        pending = path.with_name(path.name + ending)
        if pending.is_file() and pending.stat().st_size and _begins_with(pending, beginning):
            raise DataError(
                f'Database "{database_id}": {pending} holds changes that are not in the database file yet; '
                "reading the file alone would miss them. Close the program that writes it, or evaluate a copy: "
                f'sqlite3 "{path}" ".backup copy.sqlite"'
            )


def _begins_with(path: Path, head: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(head)) == head


log = logging.getLogger(__name__)
"""Its warnings are printed on the terminal, too."""

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file's content is at fault, and not a lock, a permission or the disk."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGE


def file_id(path: Path) -> tuple[int, int] | None:
    """Return device and number of the file at a path, which a rename keeps; None if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def renew_if_damaged(path: Path, loss: str) -> bool:
    """Set a file aside if a look at it shows damage; return whether it did."""
    seen = file_id(path)
    problem = damage(path)
    return bool(problem) and set_aside(path, seen, problem, loss)


def set_aside(path: Path, seen: tuple[int, int] | None, problem: str, loss: str) -> bool:
    """Rename a damaged file, remove its journals, and say what is wrong with it and what follows from its loss.

    Return whether this process renamed it. `seen` is its `file_id` from before it was opened: another file at the path
    is the new one of another process that met the same damage, and stays.
    """
    with locked_folder(path.parent):
        if seen is None or file_id(path) != seen:
            return False
        aside = path.with_name(f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
        path.rename(aside)
        for ending in ("-wal", "-shm"):
            path.with_name(path.name + ending).unlink(missing_ok=True)
    message = "%s is damaged (%s). It was renamed to %s, and a new file is begun: %s."
    log.warning(message, path, problem, aside.name, loss)
    return True


@contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Let no other process replace damaged files of a folder, or create the warehouse or the demo, in the meantime."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


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
        # with a journal, pages may be in it; it is looked at first, as another process may empty it into the file
        has_journal = bool(file_size(path.with_name(f"{path.name}-wal")))
        is_cut_off = not has_journal and path.stat().st_size < pages * size
    except sqlite3.Error as error:
        return str(error) if is_damage(error) else ""
    except FileNotFoundError:  # set aside meanwhile
        return ""
    return "it is cut off" if is_cut_off else ""


@dataclass(frozen=True)
class Template:
    """The empty database of the installed release of a library."""

    library: str  # name of the distribution

    @property
    def file(self) -> Path:
        """Its file; there is none before the first use of a release."""
        return platformdirs.user_cache_path("crosscheck") / f"{self.library}-{version(self.library)}.sqlite"

    def copy(self, database: Path) -> bool:
        """Copy it to a new file and return whether there is one; a damaged template is removed."""
        try:
            content = self.file.read_bytes()
        except OSError:
            return False
        if not _is_whole(content):
            log.warning("%s is damaged and is made again", self.file)
            with suppress(OSError):
                self.file.unlink()
            return False
        database.write_bytes(content)
        return True

    def keep(self, database: Path) -> None:
        """Keep a new database without content as the template; if the cache folder cannot be written, none is kept."""
        try:
            with (
                atomic_create(self.file) as draft,
                closing(sqlite3.connect(database)) as source,
                closing(sqlite3.connect(draft)) as target,
            ):
                source.backup(target)
        except (OSError, sqlite3.Error) as error:
            log.info("no template of %s's database is kept: %s", self.library, error)


def _is_whole(content: bytes) -> bool:
    """Return whether the content of a SQLite file passes SQLite's own check, in memory."""
    # bytes 18 and 19 of the header say whether the file has a write-ahead log; in memory there is none
    without_wal = content[:18] + b"\x01\x01" + content[20:]
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(without_wal)
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.Error:
        return False

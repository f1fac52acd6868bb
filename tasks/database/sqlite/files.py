"""A SQLite file on disk: whether it can be read without its journal, and how to open it unchanged.

Databases are opened `immutable`: SQLite then takes no lock, looks for no journal and writes no file beside
the database. What another program has committed to a write-ahead log, or is about to roll back, would be
missed, so such a file is refused until the log is empty.
"""

from pathlib import Path

from tasks.core.errors import DataError

MAGIC = b"SQLite format 3\x00"
HOT_JOURNAL = bytes.fromhex("d9d505f920a163d7")


def read_only_uri(path: Path) -> str:
    """Return the URI that opens a database for reading only, with any characters in its path."""
    return f"{path.absolute().as_uri()}?mode=ro&immutable=1"


def require_database(path: Path, database_id: str) -> None:
    """Make sure that the file can be read without a journal beside it.

    Raises:
        DataError: no such file, not a SQLite database, or one that another program is changing.
    """
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise DataError(
            f'Database "{database_id}": {path} {what}. Check the benchmark\'s `databases` folder and the '
            "data location (--data or CROSSCHECK_DATA)."
        )
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
    except OSError as error:
        raise DataError(f'Database "{database_id}": {path} cannot be read ({error.strerror}).') from error
    if head not in (b"", MAGIC):
        raise DataError(
            f'Database "{database_id}": {path} is not a SQLite database (it begins with {head!r}). A '
            "download that broke off, or a Git LFS pointer, looks like this: fetch the file again."
        )
    require_settled(path, database_id)


def require_settled(path: Path, database_id: str) -> None:
    """Refuse a database with a write-ahead log or a hot journal beside it; an empty log does no harm.

    Raises:
        DataError: with the command that makes a readable copy.
    """
    log = path.with_name(path.name + "-wal")
    journal = path.with_name(path.name + "-journal")
    pending = None
    if log.is_file() and log.stat().st_size:
        pending = log
    elif journal.is_file() and _begins_with(journal, HOT_JOURNAL):
        pending = journal
    if pending is not None:
        raise DataError(
            f'Database "{database_id}": {pending} holds changes that are not in the database file yet; '
            "reading the file alone would miss them. Close the program that writes it, or evaluate a copy: "
            f'sqlite3 "{path}" ".backup copy.sqlite"'
        )


def _begins_with(path: Path, head: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(head)) == head

"""SQLite files that several processes use at once, and a store of texts by key in one.

Stage results and verdicts are in a `KeyedStore` each. The reply cache has columns of its own, and opens its file with
the same `open_store`. Value indexes are written once and then only read, and embeddings are arrays: neither is here.
"""

import logging
import sqlite3
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from tasks.core.errors import ConfigurationError
from tasks.database.sqlite_files import file_id, is_damage, renew_if_damaged, set_aside

log = logging.getLogger(__name__)

T = TypeVar("T")

LAYOUT = 1
"""Version of the layout of a `KeyedStore`: SQLite's `user_version`."""
TABLE = "entry"
MAX_WAITING = 500
"""Number of waiting texts at which they are written."""
DAY_S = 86_400
"""Age in seconds from which a last use is updated, so that reading seldom writes."""

_CREATE = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
    key TEXT PRIMARY KEY,
    used REAL NOT NULL,         -- seconds since 1970: when it was written, or last read on a later day
    content TEXT NOT NULL       -- compressed if it is a blob
)
"""
_GET = f"SELECT used, content FROM {TABLE} WHERE key = ?"
_PUT = f"INSERT OR REPLACE INTO {TABLE} VALUES (?, ?, ?)"
_USE = f"UPDATE {TABLE} SET used = ? WHERE key = ?"


def packed(content: str) -> str | bytes:
    """Return a text as it is stored: compressed where that makes it shorter."""
    plain = content.encode()
    compressed = zlib.compress(plain)
    return compressed if len(compressed) < len(plain) else content


def unpacked(stored: Any) -> str | None:
    """Return the text of a stored value; None if it is damaged."""
    if isinstance(stored, str):
        return stored
    try:
        return zlib.decompress(stored).decode()
    except (TypeError, zlib.error, UnicodeDecodeError):
        return None


def open_store(
    path: Path,
    layout: int,
    create: Sequence[str],
    *,
    upgrade: Sequence[str] = (),
    timeout_s: float,
    synchronous: str = "NORMAL",
) -> sqlite3.Connection:
    """Open a store's file with a write-ahead log; create the file and its tables if they are missing.

    `layout` is the version of the tables' layout that this release reads and writes; the statements of `upgrade` change
    tables of an earlier layout. With `synchronous` NORMAL, what is written survives a crash of the process, but not
    necessarily of the machine.
    """
    connection = sqlite3.connect(path, timeout=timeout_s, isolation_level=None, check_same_thread=False)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > layout:
            raise ConfigurationError(
                f"{path} was written by a newer version of Crosscheck (layout {version}, this one knows {layout}). "
                "Update Crosscheck, or name another working folder with --home."
            )
        use_wal(connection, timeout_s)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        if version < layout:
            with connection:
                connection.execute("BEGIN IMMEDIATE")  # of several processes only one creates the tables
                # another process may have created or upgraded the tables since; a new file has version 0
                (version,) = connection.execute("PRAGMA user_version").fetchone()
                statements = [*create, *upgrade] if 0 < version < layout else create
                for statement in statements:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {layout}")
    except BaseException:
        connection.close()
        raise
    return connection


def use_wal(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Switch a file to a write-ahead log, so that it can be read while another process writes.

    SQLite ignores its busy timeout for this switch, so the switch is tried again for `timeout_s` seconds while other
    processes that open the file at the same time hold its lock.
    """
    retrying = Retrying(
        retry=retry_if_exception(
            # The low byte of an extended error code is its primary code.
            lambda error: getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
        ),
        stop=stop_after_delay(timeout_s),
        wait=wait_fixed(0.01),
        reraise=True,
    )
    retrying(lambda: connection.execute("PRAGMA journal_mode = WAL").close())


class KeyedStore:
    """Texts by key in one SQLite file, each with its last use.

    Calls are made inline, also in an event loop: a read or write takes some hundredths of a millisecond. A file that
    is found to be damaged, at its opening or later, is renamed, and a new one is created. Of an error of the disk or a
    lock, sqlite3.Error is raised, and texts that were not written are kept until the next write.
    """

    def __init__(
        self, path: Path, loss: str, *, timeout_s: float, durable: bool = True, batch_s: float = 0.0
    ) -> None:
        """Open the file, creating it and its folder if they are missing.

        `loss` says for the user, as a clause, what follows if a damaged file is replaced. Texts in quick succession
        wait for `batch_s` seconds, to be written together. Unless it is `durable`, a text may be lost in a crash of the
        process: writes are not synchronised with the disk, and the whole file is checked when it is opened.
        """
        self.path = path
        self._loss = loss
        self._timeout_s = timeout_s
        self._durable = durable
        self._batch_s = batch_s
        self._written = float("-inf")  # when it was last written, by the monotonic clock
        self._waiting: dict[str, str] = {}  # texts that are to be written, by key
        self._used: set[str] = set()  # keys whose last use is to be written
        path.parent.mkdir(parents=True, exist_ok=True)
        renew_if_damaged(path, loss)
        try:
            self._open()
        except sqlite3.DatabaseError as error:
            self._replace(error)

    def get(self, key: str) -> str | None:
        """Return the text under a key; None if there is none, or if the row is damaged, which is logged."""
        if (waiting := self._waiting.get(key)) is not None:
            return waiting
        row = self._retried(lambda: self._connection.execute(_GET, (key,)).fetchone())
        if row is None:
            return None
        used, stored = row
        content = unpacked(stored)
        if not isinstance(used, int | float) or content is None:
            log.warning("%s in %s is damaged and is computed again.", key, self.path)
            return None
        if used < time.time() - DAY_S:  # its last use is written at most once a day
            self._used.add(key)
        return content

    def put(self, key: str, content: str) -> None:
        """Write a text under a key, at once or together with later ones."""
        self._waiting[key] = content
        if len(self._waiting) >= MAX_WAITING or time.monotonic() - self._written >= self._batch_s:
            self.flush()

    def flush(self) -> None:
        """Write the texts that wait."""
        self._written = time.monotonic()
        rows = [(key, time.time(), packed(content)) for key, content in self._waiting.items()]
        self._retried(lambda: self._execute(_PUT, rows))
        self._waiting.clear()

    def discard(self) -> int:
        """Discard the texts that wait; return their number."""
        count = len(self._waiting)
        self._waiting.clear()
        return count

    def close(self) -> None:
        """Write the last use of what was read, for `crosscheck clean`, and close the file."""
        try:
            self._execute(_USE, [(time.time(), key) for key in self._used])
        except sqlite3.Error as error:
            log.warning("%s does not note which entries were used: %s", self.path, error)
        self._connection.close()

    def _execute(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Execute a statement for every row, in one transaction."""
        if len(rows) == 1:
            self._connection.execute(statement, rows[0])
        elif rows:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(statement, rows)

    def _retried(self, work: Callable[[], T]) -> T:
        """Return what a function returns; if the file is damaged, call it once more on a new file."""
        try:
            return work()
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            self._connection.close()
            self._replace(error)
            return work()

    def _replace(self, error: sqlite3.Error) -> None:
        """Open a new file in place of a damaged one; raise the error again if it means anything else."""
        if not is_damage(error):
            raise error
        set_aside(self.path, self._file, str(error), self._loss)
        self._open()

    def _open(self) -> None:
        """Open the file; without durable writes, check all of it, and begin a new one if it is damaged."""
        self._file = file_id(self.path)
        synchronous = "NORMAL" if self._durable else "OFF"
        connection = open_store(
            self.path, LAYOUT, [_CREATE], timeout_s=self._timeout_s, synchronous=synchronous
        )
        problem = "ok" if self._durable else connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            connection.close()
            set_aside(self.path, self._file, " ".join(problem.split()), self._loss)
            self._open()
            return
        self._connection = connection
        self._file = self._file or file_id(self.path)  # there was no file before a new one was created

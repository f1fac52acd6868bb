"""Stage results in a SQLite file of the working folder."""

import json
import logging
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tasks.core.errors import ConfigurationError, StoreError
from tasks.database.sqlite.damage import file_id, is_damage, renew_if_damaged, set_aside
from tasks.database.sqlite.wal import use_wal

log = logging.getLogger(__name__)

LAYOUT = 1
"""Version of the table's layout: SQLite's `user_version`."""
BUSY_TIMEOUT_S = 30.0
"""Time to wait while another process of this machine writes."""

_CREATE = """
CREATE TABLE IF NOT EXISTS result (
    key TEXT PRIMARY KEY,       -- stage/sha256
    made_at REAL NOT NULL,      -- seconds since 1970: when it was made, or last used on a later day
    content TEXT NOT NULL       -- the stage's result, with its model calls and notes, as JSON
)
"""
_LOSS = "stages run again, with the replies that are in the reply cache"
_GET = "SELECT content, made_at FROM result WHERE key = ?"
_PUT = "INSERT OR REPLACE INTO result VALUES (?, ?, ?)"
_USE = "UPDATE result SET made_at = ? WHERE key = ?"
DAY_S = 86_400


class StageDatabase:
    """Results by key: WAL, synchronous NORMAL, a transaction for each result.

    Once `write` has returned, a result survives a crash of the process, but not necessarily of the machine. Calls are
    made inline, in the event loop: a read or write takes some hundredths of a millisecond. Processes of one machine may
    use the file at the same time.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, creating it when missing; rename a damaged one and create a new one.

        Raises:
            ConfigurationError: it cannot be opened or written, or is of a newer layout.
        """
        self.path = path
        self._used: set[str] = set()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            renew_if_damaged(path, _LOSS)
            self._open()
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(
                f"The results of stages cannot be kept in {path}: {error}. Check that its folder can be written, is on "
                "a local disk and not full; or move the file away (with its -wal and -shm): model replies are kept "
                "elsewhere, so that nothing is paid for again."
            ) from error

    def _open(self) -> None:
        file = file_id(self.path)
        self._connection = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
        self._file = file or file_id(self.path)
        with closing(self._connection.execute("PRAGMA user_version")) as found:
            (layout,) = found.fetchone()
        if layout > LAYOUT:
            raise ConfigurationError(
                f"{self.path} was written by a newer version of Crosscheck (layout {layout}, this one knows {LAYOUT}). "
                "Update Crosscheck, or name another working folder with --home."
            )
        use_wal(self._connection, BUSY_TIMEOUT_S)
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(_CREATE)
        self._connection.execute(f"PRAGMA user_version = {LAYOUT}")

    async def read(self, key: str) -> Mapping[str, Any] | None:
        """Return the result under a key; None if there is none, or if it cannot be read as one.

        Raises:
            StoreError: the file cannot be read, and if it is damaged, no new one can be begun.
        """
        try:
            with closing(self._connection.execute(_GET, (key,))) as found:
                row = found.fetchone()
        except sqlite3.Error as error:
            self._replace(error)
            return None
        try:
            if row and row[1] < time.time() - DAY_S:
                self._used.add(key)
            result = json.loads(row[0]) if row else None
        except (TypeError, ValueError, RecursionError) as error:
            log.warning("%s in %s is damaged and is computed again: %s", key, self.path, error)
            return None
        return result if isinstance(result, dict) and "value" in result else None

    async def write(self, key: str, result: Mapping[str, Any]) -> None:
        """Store a result under a key.

        Raises:
            StoreError: the file cannot be written, and if it is damaged, no new one either.
        """
        content = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        row = (key, time.time(), content)
        try:
            self._connection.execute(_PUT, row).close()
        except sqlite3.Error as error:
            self._replace(error)
            with self._usable():
                self._connection.execute(_PUT, row).close()

    def close(self) -> None:
        """Note which earlier results were used, for `crosscheck clean`, and close the file."""
        try:
            self._connection.execute("BEGIN").close()
            self._connection.executemany(_USE, [(time.time(), key) for key in self._used]).close()
            self._connection.execute("COMMIT").close()
        except sqlite3.Error as error:
            log.warning("%s does not note which results were used: %s", self.path, error)
        self._connection.close()

    def _replace(self, error: sqlite3.Error) -> None:
        """Open a new file in place of one whose damage shows only now.

        Raises:
            StoreError: the file is not damaged, or no new one can be begun.
        """
        with self._usable():
            if not is_damage(error):
                raise error
            self._connection.close()
            set_aside(self.path, self._file, str(error), _LOSS)
            self._open()

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Raise StoreError where the block shows that the file cannot be used."""
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise StoreError(
                f"The results of stages in {self.path} cannot be used: {error}. No further request is sent. When the "
                "disk has room and the file can be written, the same command continues; replies that were paid for "
                "are kept."
            ) from error

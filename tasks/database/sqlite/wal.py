"""Write-ahead log of a SQLite file that several processes use."""

import sqlite3
import time


def use_wal(connection: sqlite3.Connection, timeout_s: float) -> None:
    """Switch a file to a write-ahead log, so that it can be read while another process writes.

    SQLite ignores its busy timeout for this switch, for which processes that create a file together compete.

    Raises:
        sqlite3.OperationalError: the file stays locked for `timeout_s` seconds, or cannot be written.
    """
    until = time.monotonic() + timeout_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").close()
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
        time.sleep(0.01)

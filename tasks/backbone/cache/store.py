"""Opens the reply cache: in a SQLite file for one machine, or in a PostgreSQL database that several share."""

import logging
import sqlite3
from pathlib import Path

from sqlalchemy import URL, Engine, create_engine
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.schema import CreateTable

from tasks.backbone.cache.base import ADD_PROMPT, LAYOUT, ReplyCache, reply, reply_prompt
from tasks.backbone.cache.room import Reserve, no_room
from tasks.core.errors import CrosscheckError, StoreError
from tasks.core.files import file_size
from tasks.database.keyed_store import open_store
from tasks.database.sqlite_files import file_id

__all__ = ["ReplyCache", "open_reply_cache"]

log = logging.getLogger(__name__)

BUSY_TIMEOUT_S = 5.0


def open_reply_cache(location: Path | str) -> ReplyCache:
    """Open the reply cache in a file, or at the address of a PostgreSQL database (`find_replies`)."""
    if isinstance(location, Path):
        return SqliteReplyCache(location)
    from tasks.backbone.cache.postgres import PostgresReplyCache

    return PostgresReplyCache(location)


class SqliteReplyCache(ReplyCache):
    """Replies in one SQLite file: WAL, synchronous NORMAL.

    Once `put` has returned, the reply survives a crash of the process, but not necessarily of the machine. Calls are
    made inline, also in an event loop: they take a fraction of a millisecond. Replies are stored as text, readable
    with `sqlite3`.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, creating it and its folder when missing."""
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CrosscheckError(f"The reply cache {self.path} cannot be opened: {error}.") from None
        super().__init__(str(self.path), _engine(self.path))
        self._opened = file_id(self.path)
        self._reserve: Reserve | None = None

    def close(self) -> None:
        """Retry to save unsaved replies, and close the connections."""
        if self._reserve:
            self._reserve.release()
        super().close()

    def check_room(self) -> None:
        """Check, before a request is sent, that its reply can be stored; take a reserve before the first."""
        super().check_room()
        if self._reserve is None:
            self._reserve = Reserve(self.path.parent)

    def _problem(self) -> str:
        if file_id(self.path) == self._opened:
            return self._unwritable
        return (
            f"The reply cache {self.path} was removed or replaced during the run: no further request is sent. "
            "Run the same command to start again."
        )

    def _made_room(self, error: DBAPIError) -> bool:
        if "locked" in str(error.orig):
            return False
        self._unwritable = no_room(self.path, str(error.orig))
        if self._reserve:
            self._reserve.release()
        return self._reserve is not None

    def _prepare(self) -> None:
        self._at_once.connect().close()  # `open_store` creates the tables

    def _bytes(self) -> int:
        return sum(map(file_size, (self.path, self.path.with_name(f"{self.path.name}-wal"))))

    def _reclaim_space(self) -> None:
        try:
            with self._at_once.connect() as connection:
                connection.exec_driver_sql("VACUUM")
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        except OperationalError as error:
            log.info("%s keeps its size until the next prune: %s", self.path, error.orig)

    def _unusable(self, error: DBAPIError) -> CrosscheckError:
        if isinstance(error, OperationalError):
            return StoreError(
                f"The reply cache {self.path} cannot be used: {error.orig}. Check that its folder can be written, "
                "is on a local disk and not full, and that no other program holds the file."
            )
        return StoreError(
            f"The reply cache {self.path} is damaged: {error.orig}. Move the file away (with its -wal and -shm) "
            "and run the command again; its replies are then paid for again. "
            f'`sqlite3 "{self.path}" .recover` may save them.'
        )


def _engine(path: Path) -> Engine:
    create = [
        str(CreateTable(table, if_not_exists=True).compile(dialect=sqlite.dialect()))
        for table in (reply, reply_prompt)
    ]

    def connect() -> sqlite3.Connection:
        connection = open_store(path, LAYOUT, create, upgrade=[ADD_PROMPT], timeout_s=BUSY_TIMEOUT_S)
        connection.isolation_level = "DEFERRED"  # SQLAlchemy begins and commits transactions
        connection.text_factory = _text
        return connection

    return create_engine(URL.create("sqlite", database=str(path)), creator=connect)


def _text(stored: bytes) -> str | bytes:
    """Return a text; its bytes where they are damaged, so that the other entries are read."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored

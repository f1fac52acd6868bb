"""Opens the reply cache: in a SQLite file for one machine, or in a PostgreSQL database that several share."""

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, false, func, insert, inspect, make_url, select
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.schema import CreateTable, SetTableComment
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from tasks.backbone.batches.store import reason_of
from tasks.backbone.cache.base import ADD_PROMPT, COMMENT, LAYOUT, ReplyCache, reply, reply_prompt
from tasks.backbone.cache.room import Reserve, no_room
from tasks.core.errors import ConfigurationError, CrosscheckError, StoreError, first_problem
from tasks.core.files import file_size
from tasks.database.keyed_store import open_store
from tasks.database.sqlite_files import file_id
from tasks.settings.home import REPLIES

__all__ = ["ReplyCache", "open_reply_cache"]

log = logging.getLogger(__name__)

BUSY_TIMEOUT_S = 5.0


def open_reply_cache(location: Path | str) -> ReplyCache:
    """Open the reply cache in a file, or at the address of a PostgreSQL database (`find_replies`)."""
    if isinstance(location, Path):
        return SqliteReplyCache(location)
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
            raise CrosscheckError(
                f"The reply cache {self.path} cannot be opened: {first_problem(error)}."
            ) from None
        super().__init__(str(self.path), _sqlite_engine(self.path))
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

    def _can_retry_save(self, error: DBAPIError) -> bool:
        """Return whether the reserve made room for another save, unless the file is only locked for now."""
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


def _sqlite_engine(path: Path) -> Engine:
    create_tables = [CreateTable(table, if_not_exists=True) for table in (reply, reply_prompt)]
    statements = [str(create.compile(dialect=sqlite.dialect())) for create in create_tables]

    def connect() -> sqlite3.Connection:
        connection = open_store(path, LAYOUT, statements, upgrade=[ADD_PROMPT], timeout_s=BUSY_TIMEOUT_S)
        connection.isolation_level = "DEFERRED"  # SQLAlchemy begins and commits transactions
        connection.text_factory = _text  # reads every column of type TEXT
        return connection

    return create_engine(URL.create("sqlite", database=str(path)), creator=connect)


def _text(stored: bytes) -> str | bytes:
    """Return a text; its bytes where they are damaged, so that the other entries are read."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


T = TypeVar("T")

CONNECTIONS = 8
"""Connections, and threads that wait for them: more than enough for a thousand calls a second."""
RECONNECT_S = 30.0
"""Seconds during which a lost connection is retried before the run ends."""
CONNECTION = {
    "connect_timeout": 10,
    "application_name": "crosscheck",
    # Detect a dead connection after 30 seconds instead of two hours.
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
PASSING = ("08", "40", "53300", "55", "57")
"""Beginnings of PostgreSQL's error codes for what passes: lost connection, deadlock, lock, restart."""
_TABLES = f"{reply.name} and {reply_prompt.name}"
_MAKING = 0x43_52_4F_53_53
"""Advisory lock for creating the tables: PostgreSQL fails if two connections do so at the same time."""


class PostgresReplyCache(ReplyCache):
    """Replies in two tables of a PostgreSQL database.

    Every call is a network round trip, so in an event loop it runs in a thread, on one of a few pooled connections.
    After a lost connection, reads are retried for RECONNECT_S. Writes are not: unsaved replies stay in memory, and
    `close` retries them.
    """

    def __init__(self, url: str) -> None:
        """Connect, and create the tables if they are missing."""
        address = _address(url)
        self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="replies")
        self._opened = False  # until then, an error is about the address or the rights of its role
        # Without parameters, which may hold another password.
        public = address.set(drivername="postgresql", query={}).set(password=None)
        super().__init__(public.render_as_string(), _postgres_engine(address))
        self._opened = True

    def close(self) -> None:
        """Wait for running saves, retry to save unsaved replies, and close the connections."""
        self._threads.shutdown()
        super().close()

    def _prepare(self) -> None:
        with self._engine.begin() as connection:
            if self._layout(connection) != LAYOUT:
                connection.execute(select(func.pg_advisory_xact_lock(_MAKING)))
                layout = self._layout(connection)  # again: another process may have made the tables meanwhile
                if layout is None:
                    connection.execute(CreateTable(reply))
                elif layout < LAYOUT:
                    connection.exec_driver_sql(ADD_PROMPT)
                if layout != LAYOUT:
                    connection.execute(CreateTable(reply_prompt))
                    connection.execute(SetTableComment(reply))
        with self._engine.connect() as connection:
            for table in (reply, reply_prompt):  # insert no row, to check that this role may write
                connection.execute(insert(table).from_select(table.c.keys(), select(table).where(false())))

    def _keep_others_from_adding(self, connection: Connection) -> None:
        connection.exec_driver_sql(f"LOCK TABLE {reply_prompt.name} IN SHARE ROW EXCLUSIVE MODE")

    def _layout(self, connection: Connection) -> int | None:
        """Return the version of the table's layout, None if there is no table."""
        inspector = inspect(connection)
        if not inspector.has_table(reply.name):
            return None
        comment = inspector.get_table_comment(reply.name)["text"] or ""
        layout = comment.removeprefix(COMMENT)
        if not comment.startswith(COMMENT) or not layout.isdecimal():
            raise ConfigurationError(
                f"The database {self.location} ({REPLIES}) has a table {reply.name} that is not Crosscheck's. Name a "
                "database that is made for the replies: `createdb NAME`."
            )
        if int(layout) > LAYOUT:
            raise ConfigurationError(
                f"The reply cache {self.location} was made by a newer version of Crosscheck (layout {layout}, this one "
                f"knows {LAYOUT}). Update Crosscheck, or name another database in {REPLIES}."
            )
        return int(layout)

    def _with_retry(self, work: Callable[[], T]) -> T:
        attempts = Retrying(
            retry=retry_if_exception_type((OperationalError, InterfaceError)),
            stop=stop_after_delay(RECONNECT_S),
            wait=wait_fixed(0.5),
            reraise=True,
        )
        return attempts(work)

    def _can_retry_save(self, error: DBAPIError) -> bool:
        """Return whether only the connection was lost; set `_unwritable` for an error that does not pass."""
        if error.connection_invalidated:  # closed while idle: the next call opens a new one
            return True
        code = getattr(error.orig, "sqlstate", None)  # without one the connection is lost, which passes
        if code and not code.startswith(PASSING):
            self._unwritable = (
                f"The reply cache {self.location} cannot be written ({reason_of(error)}), so no further request is "
                f"sent. Let this role write the tables {_TABLES}, on a disk with room; then run the same command again "
                "to continue."
            )
        return False

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _bytes(self) -> int:
        with self._engine.connect() as connection:
            sizes = [func.pg_total_relation_size(table.name) for table in (reply, reply_prompt)]
            return sum(connection.execute(select(*sizes)).one())

    def _unusable(self, error: DBAPIError) -> CrosscheckError:
        message = reason_of(error)
        if not self._opened:
            return ConfigurationError(
                f"The reply cache {self.location} ({REPLIES}) cannot be opened: {message}. {_advice(message)}"
            )
        return StoreError(
            f"The reply cache {self.location} cannot be used: {message}. No further request is sent, since its reply "
            "may be paid for already. When the database is reachable again, run the same command again to continue."
        )


def _address(url: str) -> URL:
    """Parse an address; error messages do not repeat it, since it may hold a password."""
    _, _, rest = url.partition("://")
    try:
        address = make_url(f"postgresql+psycopg://{rest}")
    except (ArgumentError, ValueError):
        address = None
    if address is None or not address.database or "@" in (address.host or ""):
        raise ConfigurationError(
            f"{REPLIES} is no address of a PostgreSQL database. Write postgresql://user@host:5432/database, and put "
            "the password into PGPASSWORD or ~/.pgpass (in the address, @ and the like have to be percent-encoded)."
        )
    return address


def _postgres_engine(address: URL) -> Engine:
    try:
        return create_engine(
            address, pool_size=CONNECTIONS, max_overflow=CONNECTIONS, connect_args=dict(CONNECTION)
        )
    except ImportError:
        raise ConfigurationError(
            f"{REPLIES} names a PostgreSQL database, and its driver is not installed: "
            "pip install 'crosscheck-sql[team]'."
        ) from None


def _advice(message: str) -> str:
    """Return what a user does about PostgreSQL's message."""
    if "password" in message:
        return "Put the right password into PGPASSWORD or ~/.pgpass, in the environment of this command."
    if "database" in message and "does not exist" in message:
        return "Create it with `createdb`, or correct the name."
    if "must be owner" in message:
        return (
            f"This release adds to the tables of an earlier one. Run any command once with a role that owns the tables "
            f"{_TABLES}; let the other roles read and write both."
        )
    if "permission denied" in message or "read-only" in message:
        return f"Its role has to read and write the tables {_TABLES}, and to create them the first time."
    return (
        "Check that PostgreSQL runs there and lets this machine in, or unset the variable to keep the replies in the "
        "working folder."
    )

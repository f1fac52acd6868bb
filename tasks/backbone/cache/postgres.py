"""The reply cache of a team: a PostgreSQL database that any number of machines use."""

import asyncio
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, func, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.schema import CreateTable, SetTableComment

from tasks.backbone.cache.base import ReplyCache
from tasks.backbone.cache.table import COMMENT, LAYOUT
from tasks.backbone.cache.table import reply as table
from tasks.errors import ConfigurationError, CrosscheckError, StoreError
from tasks.settings.stores import REPLIES

T = TypeVar("T")

CONNECTIONS = 8
"""Connections, and threads that wait for them: more than enough for a thousand calls a second."""
RECONNECT_S = 30.0
"""How long a connection may be gone before the run ends for it."""
CONNECTION = {
    "connect_timeout": 10,
    "application_name": "crosscheck",
    # A server that vanished without a word is noticed after half a minute instead of two hours.
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
_MAKING = 0x43_52_4F_53_53
"""Advisory lock of those who make the table: PostgreSQL fails where two do at the same moment."""


class PostgresReplyCache(ReplyCache):
    """Replies in one table of a PostgreSQL database.

    Every call is a round trip over the network, so in an event loop it is made in a thread, on one of a few
    connections. A connection that breaks is made anew: reading waits for that for RECONNECT_S, writing does not wait,
    since a reply in memory is as good until the run ends; then it is waited for once more.
    """

    def __init__(self, url: str) -> None:
        """Connect, and make the table where it is missing.

        Raises:
            ConfigurationError: the address cannot be read, the driver is missing, or the database is not to be used
                as it is.
        """
        address = _address(url)
        self._gone_since: float | None = None
        self._threads = ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="replies")
        self._opened = False
        super().__init__(_shown(address), _engine(address))
        self._opened = True

    def close(self) -> None:
        """Wait for replies that are being saved, try once more to save the others, and close the connections."""
        self._threads.shutdown()
        super().close()

    def _prepare(self) -> None:
        with self._engine.begin() as connection:
            if self._layout(connection) is None:
                connection.execute(select(func.pg_advisory_xact_lock(_MAKING)))
                if self._layout(connection) is None:
                    connection.execute(CreateTable(table))
                    connection.execute(SetTableComment(table))
        with self._engine.connect() as connection:  # left without a commit: nothing of it stays
            connection.execute(self._put, _trial())

    def _layout(self, connection: Connection) -> int | None:
        """Return the version of the table's layout, None where there is no table."""
        seen = inspect(connection)
        if not seen.has_table(table.name):
            return None
        comment = seen.get_table_comment(table.name)["text"] or ""
        layout = comment.removeprefix(COMMENT)
        if not comment.startswith(COMMENT) or not layout.isdecimal():
            raise ConfigurationError(
                f"The database {self.place} ({REPLIES}) has a table {table.name} that is not Crosscheck's. Name a "
                "database that is made for the replies: `createdb NAME`."
            )
        if int(layout) > LAYOUT:
            raise ConfigurationError(
                f"The reply cache {self.place} was made by a newer version of Crosscheck (layout {layout}, this one "
                f"knows {LAYOUT}). Update Crosscheck, or name another database in {REPLIES}."
            )
        return int(layout)

    def _with_retry(self, work: Callable[[], T]) -> T:
        while True:
            try:
                done = work()
            except (OperationalError, InterfaceError):
                now = time.monotonic()
                self._gone_since = self._gone_since or now
                if now - self._gone_since > RECONNECT_S:
                    raise
                time.sleep(0.5)
            else:
                self._gone_since = None
                return done

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def _bytes(self) -> int:
        with self._engine.connect() as connection:
            size: int = connection.execute(select(func.pg_total_relation_size(table.name))).scalar_one()
            return size

    def _reclaim_space(self) -> None:
        """Leave it to PostgreSQL, which does so by itself (autovacuum)."""

    def _unusable(self, error: DBAPIError) -> CrosscheckError:
        said = " ".join(str(error.orig).split()).rstrip(".")
        if not self._opened:
            return ConfigurationError(
                f"The reply cache {self.place} ({REPLIES}) cannot be opened: {said}. {_advice(said)}"
            )
        return StoreError(
            f"The reply cache {self.place} cannot be used: {said}. Nothing more is asked, since it may have been paid "
            "for already. When the database answers again, the same command continues."
        )

    def _damaged(self, what: str) -> CrosscheckError:
        return StoreError(
            f"The reply cache {self.place} is damaged: {what}. Delete that row of the table {table.name}; the reply is "
            "then bought anew."
        )


def _address(url: str) -> URL:
    """Read an address; what cannot be read is not repeated, since it may be part of a password."""
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


def _shown(address: URL) -> str:
    """Return an address for people: without a password, and without parameters, one of which may be another."""
    return address.set(drivername="postgresql", query={}).set(password=None).render_as_string()


def _engine(address: URL) -> Engine:
    try:
        return create_engine(
            address, pool_size=CONNECTIONS, max_overflow=CONNECTIONS, connect_args=dict(CONNECTION)
        )
    except ImportError:
        raise ConfigurationError(
            f"{REPLIES} names a PostgreSQL database, and its driver is not installed: "
            "pip install 'crosscheck-sql[team]'."
        ) from None


def _advice(said: str) -> str:
    if "password" in said:
        return "Put the right password into PGPASSWORD or ~/.pgpass, in the environment of this command."
    if "database" in said and "does not exist" in said:
        return "Create it with `createdb`, or correct the name."
    if "permission denied" in said or "read-only" in said:
        return f"Its role has to read and write the table {table.name}, and to create it the first time."
    return (
        "Check that PostgreSQL runs there and lets this machine in, or unset the variable to keep the replies in the "
        "working folder."
    )


def _trial() -> dict[str, Any]:
    """Return a row that is written to find out whether that is allowed, before anything is paid for."""
    row: dict[str, Any] = dict.fromkeys(table.c.keys())
    texts = ("model", "backbone", "created_at", "text", "finish")
    return (
        row
        | dict.fromkeys(texts, "")
        | {"key": f"trial {uuid.uuid4()}", "seconds": 0.0, "retries": 0, "request": b""}
    )

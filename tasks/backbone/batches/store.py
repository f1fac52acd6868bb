"""Which batch has the answer to a request: kept beside the replies, before the batch is submitted."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex, CreateTable

from tasks.core.errors import StoreError

_TABLES = sa.MetaData()
_BATCH = sa.Table(
    "batch",
    _TABLES,
    sa.Column("token", sa.Text, primary_key=True),
    sa.Column("endpoint", sa.Text, nullable=False),
    sa.Column("batch_id", sa.Text),
    sa.Column("submitted_at", sa.Double, nullable=False),
    sa.Column("requests", sa.Integer, nullable=False),
    sa.Column("seconds", sa.Double),
    comment="Crosscheck's batches: the token, the provider's id, when it was submitted, its size, and how long it took",
)
_REQUEST = sa.Table(
    "batch_request",
    _TABLES,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("token", sa.Text, nullable=False, index=True),
    comment="The batch of each request that Crosscheck has submitted in one",
)
_KEPT = sa.select(_BATCH.c.token, _BATCH.c.batch_id, _BATCH.c.submitted_at, _BATCH.c.requests)
_CREATION_LOCK = 0x63726F7373626174
"""Key of the lock under which PostgreSQL's tables are created: two processes may begin at the same time."""


def insert_new(into: sa.Table, engine: sa.Engine) -> sa.Insert:
    """Return the statement that adds rows whose key is not there yet."""
    # `on_conflict_do_nothing` only for PostgreSQL: SQLAlchemy compiles it on each call, slower than SQLite's write.
    if engine.dialect.name == "postgresql":
        return postgresql.insert(into).on_conflict_do_nothing()
    return sa.insert(into).prefix_with("OR IGNORE")


def reason_of(error: DBAPIError) -> str:
    """Return what a database says about an error, on one line."""
    return " ".join(str(error.orig).split()).rstrip(".")


@dataclass(frozen=True, slots=True)
class KeptBatch:
    """A batch that was submitted, or was about to be when the process ended."""

    token: str  # our name for it
    batch_id: str | None  # the provider's id; None if it was not kept
    submitted_at: float  # when it was submitted at the earliest, in seconds since the epoch
    requests: int  # its size


class BatchStore:
    """Batches and their requests, in the database of the reply cache. Several processes may use it at once.

    A request belongs to one batch at most. It stays in the store after its reply has been cached, since the reply is
    looked up there first.
    """

    def __init__(self, engine: sa.Engine, location: str, endpoint: str) -> None:
        """Create the tables where they are missing; batches of other endpoints are not seen."""
        self._engine = engine
        self._location = location
        self._endpoint = endpoint
        with self._transaction() as connection:
            # PostgreSQL fails if two processes create a table at the same time
            if engine.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATION_LOCK)))
            for table in _TABLES.sorted_tables:
                connection.execute(CreateTable(table, if_not_exists=True))
                for index in table.indexes:
                    connection.execute(CreateIndex(index, if_not_exists=True))
            columns = {column["name"] for column in sa.inspect(connection).get_columns("batch")}
            if "beats" in columns:  # of an earlier layout
                connection.exec_driver_sql("ALTER TABLE batch DROP COLUMN beats")

    def batch_of(self, key: str) -> KeptBatch | None:
        """Return the batch of a request; None if it is in none."""
        query = _KEPT.join(_REQUEST, _REQUEST.c.token == _BATCH.c.token)
        query = query.where(_REQUEST.c.key == key, _BATCH.c.endpoint == self._endpoint)
        with self._transaction() as connection:
            row = connection.execute(query).first()
        return KeptBatch(*row) if row else None

    def under_way(self) -> list[KeptBatch]:
        """Return the batches of every endpoint that have requests and whose end was not seen, the earliest first."""
        has_requests = sa.exists().where(_REQUEST.c.token == _BATCH.c.token)
        query = _KEPT.where(_BATCH.c.seconds.is_(None), has_requests).order_by(_BATCH.c.submitted_at)
        with self._transaction() as connection:
            return [KeptBatch(*row) for row in connection.execute(query)]

    def begin(self, token: str, keys: Sequence[str]) -> list[str]:
        """Record a batch before it is submitted; return the keys to submit: those that no other batch has."""
        with self._transaction() as connection:
            rows = [{"key": key, "token": token} for key in sorted(keys)]
            connection.execute(insert_new(_REQUEST, self._engine), rows)
            keys_of_batch = sa.select(_REQUEST.c.key).where(_REQUEST.c.token == token)
            own_keys = set(connection.execute(keys_of_batch).scalars())
            batch = {"token": token, "endpoint": self._endpoint, "submitted_at": time.time()}
            connection.execute(sa.insert(_BATCH), {**batch, "requests": len(own_keys)})
        return [key for key in keys if key in own_keys]

    def submitted(self, token: str, batch_id: str) -> None:
        """Note the provider's id of a batch."""
        self._update(token, batch_id=batch_id)

    def ids(self) -> set[str]:
        """Return the provider's ids of all batches that have one."""
        with self._transaction() as connection:
            ids = connection.execute(sa.select(_BATCH.c.batch_id).where(_BATCH.c.batch_id.is_not(None)))
            return set(ids.scalars())

    def ended(self, token: str, batch_id: str, seconds: float) -> None:
        """Note the provider's id of a batch, and how long it took."""
        self._update(token, batch_id=batch_id, seconds=seconds)

    def release(self, token: str, keys: Iterable[str]) -> None:
        """Take requests out of their batch, which has no answer to them: they may be submitted in another one."""
        released = sa.delete(_REQUEST).where(
            _REQUEST.c.token == token, _REQUEST.c.key == sa.bindparam("released")
        )
        if rows := [{"released": key} for key in sorted(keys)]:
            with self._transaction() as connection:
                connection.execute(released, rows)

    def keys_of(self, token: str) -> list[str]:
        """Return the requests of a batch."""
        query = sa.select(_REQUEST.c.key).where(_REQUEST.c.token == token)
        with self._transaction() as connection:
            return list(connection.execute(query).scalars())

    def _update(self, token: str, **values: Any) -> None:
        with self._transaction() as connection:
            connection.execute(sa.update(_BATCH).where(_BATCH.c.token == token).values(**values))

    @contextmanager
    def _transaction(self) -> Iterator[sa.Connection]:
        """Open a transaction that survives a crash of the machine; an error of the database is a StoreError."""
        try:
            with self._engine.connect() as connection:
                if self._engine.dialect.name == "sqlite":
                    connection.exec_driver_sql("PRAGMA synchronous = FULL")
                yield connection
                connection.commit()
        except DBAPIError as error:
            raise StoreError(
                f"The batches in {self._location} cannot be read or written ({reason_of(error)}), so no batch is "
                "submitted. The same command continues once the database can be used."
            ) from None

"""Which batch has the answer to a request: kept beside the replies, before the batch is submitted."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Double,
    Engine,
    Integer,
    MetaData,
    Row,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateIndex, CreateTable

from tasks.core.errors import StoreError

_META = MetaData()
_BATCH = Table(
    "batch",
    _META,
    Column("token", Text, primary_key=True),
    Column("endpoint", Text, nullable=False),
    Column("batch_id", Text),
    Column("submitted_at", Double, nullable=False),
    Column("requests", Integer, nullable=False),
    Column("beats", Integer, nullable=False),
    Column("seconds", Double),
    comment="Crosscheck's batches: the token, the provider's id, when it was submitted, its size, and how long it took",
)
_REQUEST = Table(
    "batch_request",
    _META,
    Column("key", Text, primary_key=True),
    Column("token", Text, nullable=False, index=True),
    comment="The batch of each request that Crosscheck has submitted in one",
)
_MAKING = 0x63726F7373626174
"""Key of the lock under which PostgreSQL's tables are made: two processes may begin at the same time."""
_AT_ONCE = 500
"""Keys of one statement; SQLite allows 32,766 variables."""


@dataclass(frozen=True, slots=True)
class KeptBatch:
    """A batch that was submitted, or was about to be when the process ended."""

    token: str  # our name for it
    batch_id: str | None  # the provider's id; None if it was not kept
    submitted_at: float  # when it was submitted at the earliest, in seconds since the epoch
    requests: int  # its size
    beats: int = 0  # grows while a process submits it
    seconds: float | None = None  # how long it took; None before its end is known


class BatchStore:
    """Batches and their requests, in the database of the reply cache. Several processes may use it at once.

    A request belongs to one batch at most. It stays in the store after its reply has been cached, since the reply is
    looked up there first.

    Args:
        engine: of the reply cache's database.
        place: its file or address, for messages.
        endpoint: address of the endpoint; batches of other endpoints are not seen.
    """

    def __init__(self, engine: Engine, place: str, endpoint: str) -> None:
        self._engine, self._place, self._endpoint = engine, place, endpoint
        with self._transaction() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(select(func.pg_advisory_xact_lock(_MAKING)))
            for table in _META.sorted_tables:
                connection.execute(CreateTable(table, if_not_exists=True))
                for index in table.indexes:
                    connection.execute(CreateIndex(index, if_not_exists=True))

    def batch_of(self, key: str) -> KeptBatch | None:
        """Return the batch of a request; None if it is in none."""
        wanted = select(_BATCH).join(_REQUEST, _REQUEST.c.token == _BATCH.c.token)
        wanted = wanted.where(_REQUEST.c.key == key, _BATCH.c.endpoint == self._endpoint)
        with self._transaction() as connection:
            row = connection.execute(wanted).first()
        return _kept(row) if row else None

    def kept(self) -> list[KeptBatch]:
        """Return the batches of the endpoint, the latest first."""
        wanted = (
            select(_BATCH).where(_BATCH.c.endpoint == self._endpoint).order_by(_BATCH.c.submitted_at.desc())
        )
        with self._transaction() as connection:
            return [_kept(row) for row in connection.execute(wanted)]

    def begin(self, token: str, keys: Sequence[str]) -> list[str]:
        """Note a batch before it is submitted, and return the requests that are in no other one: those to submit."""
        put = (
            postgresql.insert(_REQUEST).on_conflict_do_nothing()
            if self._engine.dialect.name == "postgresql"
            else insert(_REQUEST).prefix_with("OR IGNORE")
        )
        with self._transaction() as connection:
            connection.execute(put, [{"key": key, "token": token} for key in sorted(keys)])
            ours = select(_REQUEST.c.key).where(_REQUEST.c.token == token)
            owned = set(connection.execute(ours).scalars())
            row = {"token": token, "endpoint": self._endpoint, "submitted_at": time.time()}
            connection.execute(insert(_BATCH), row | {"requests": len(owned), "beats": 0})
        return [key for key in keys if key in owned]

    def beat(self, token: str) -> None:
        """Note that a process is submitting a batch."""
        with self._transaction() as connection:
            connection.execute(update(_BATCH).where(_BATCH.c.token == token).values(beats=_BATCH.c.beats + 1))

    def submitted(self, token: str, batch_id: str) -> None:
        """Note the provider's id of a batch."""
        with self._transaction() as connection:
            connection.execute(update(_BATCH).where(_BATCH.c.token == token).values(batch_id=batch_id))

    def ended(self, token: str, seconds: float) -> None:
        """Note how long a batch took."""
        with self._transaction() as connection:
            connection.execute(update(_BATCH).where(_BATCH.c.token == token).values(seconds=seconds))

    def release(self, token: str, keys: Iterable[str]) -> None:
        """Take requests out of their batch, which has no answer to them: they may be submitted in another one."""
        released = sorted(keys)
        with self._transaction() as connection:
            for first in range(0, len(released), _AT_ONCE):
                some = released[first : first + _AT_ONCE]
                connection.execute(
                    delete(_REQUEST).where(_REQUEST.c.token == token, _REQUEST.c.key.in_(some))
                )

    def keys_of(self, token: str) -> list[str]:
        """Return the requests of a batch."""
        with self._transaction() as connection:
            return list(connection.execute(select(_REQUEST.c.key).where(_REQUEST.c.token == token)).scalars())

    def _transaction(self) -> "_Transaction":
        return _Transaction(self._engine, self._place)


def _kept(row: Row[Any]) -> KeptBatch:
    return KeptBatch(row.token, row.batch_id, row.submitted_at, row.requests, row.beats, row.seconds)


class _Transaction:
    """A transaction that survives a crash of the machine; an error of the database is a StoreError."""

    def __init__(self, engine: Engine, place: str) -> None:
        self._engine, self._place = engine, place

    def __enter__(self) -> Connection:
        try:
            self._connection = self._engine.connect()
            if self._engine.dialect.name == "sqlite":
                self._connection.exec_driver_sql("PRAGMA synchronous = FULL")
            return self._connection
        except DBAPIError as error:
            raise self._unusable(error) from None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is None:
                self._connection.commit()
            self._connection.close()
        except DBAPIError as failed:
            raise self._unusable(failed) from None
        if isinstance(error, DBAPIError):
            raise self._unusable(error) from None

    def _unusable(self, error: DBAPIError) -> StoreError:
        why = " ".join(str(error.orig).split()).rstrip(".")
        return StoreError(
            f"The batches in {self._place} cannot be read or written ({why}), so no batch is submitted. The same "
            "command continues once the database can be used."
        )

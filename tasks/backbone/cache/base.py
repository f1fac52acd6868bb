"""Base class of the reply caches: replies of models by request, so that each is paid for once; their tables."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import BYTEA
from sqlalchemy.exc import DBAPIError, StatementError
from sqlalchemy.types import TypeDecorator

from tasks.backbone.batches.store import BatchStore, insert_new, reason_of
from tasks.backbone.cache.entry import CacheStats, Entry, ModelStats, Rows, entry_of, reply_of, rows_of
from tasks.backbone.cache.room import NoRoomError, lost
from tasks.backbone.protocol import Reply, Request
from tasks.core.errors import CrosscheckError, StoreError
from tasks.core.wording import counted

LAYOUT = 2
"""Version of the layout: SQLite's `user_version`, in PostgreSQL the end of the table's comment."""
COMMENT = "Crosscheck's replies, layout "


class ReplyText(TypeDecorator[str]):
    """Column type for any text of a model: text in SQLite, bytes in PostgreSQL.

    PostgreSQL's text type rejects NUL, and both databases reject lone surrogates (SQLite then stores bytes).
    """

    impl = sa.Text().with_variant(BYTEA(), "postgresql")
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | bytes | None:
        """Return the stored form of a text."""
        if value is None:
            return None
        content = value.encode("utf-8", "surrogatepass")
        readable = dialect.name == "sqlite" and content == value.encode("utf-8", "replace")
        return value if readable else content

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Any:
        """Return the text of a stored value; its bytes where they are damaged."""
        if not isinstance(value, bytes | memoryview):
            return value
        try:
            return bytes(value).decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return bytes(value)


_tables = sa.MetaData()

reply_prompt = sa.Table(
    "reply_prompt",
    _tables,
    sa.Column("digest", sa.Text, primary_key=True),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
"""One row per prompt, compressed. A prompt that is sent every night is stored once."""

reply = sa.Table(
    "reply",
    _tables,
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("model", sa.Text, nullable=False),
    sa.Column("backbone", sa.Text, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("input_tokens", sa.Integer),
    sa.Column("cached_input_tokens", sa.Integer),
    sa.Column("output_tokens", sa.Integer),
    sa.Column("reasoning_tokens", sa.Integer),
    sa.Column("text", ReplyText, nullable=False),
    sa.Column("finish", sa.Text, nullable=False),
    sa.Column("seconds", sa.Double, nullable=False),
    sa.Column("retries", sa.Integer, nullable=False),
    sa.Column("cost_usd", sa.Double),
    sa.Column("request", sa.LargeBinary, nullable=False),
    sa.Column("prompt", sa.Text),
    comment=f"{COMMENT}{LAYOUT}",
)
"""One row per paid reply. The request is compressed, and has no prompt if `prompt` is the digest of one.

Layout 1 had no column `prompt`, and no table of prompts.
"""
ADD_PROMPT = "ALTER TABLE reply ADD COLUMN prompt TEXT"
"""Statement that makes the table of layout 1 one of layout 2, beside the creation of the table of prompts."""

log = logging.getLogger(__name__)

T = TypeVar("T")

_GET = sa.select(reply).where(reply.c.key == sa.bindparam("wanted"))
_WHOLE = sa.select(reply, reply_prompt.c.content).join_from(
    reply, reply_prompt, reply.c.prompt == reply_prompt.c.digest, isouter=True
)
"""Replies, each with its prompt."""
_DELETE_UNUSED = sa.delete(reply_prompt).where(
    reply_prompt.c.digest.in_(sa.except_(sa.select(reply_prompt.c.digest), sa.select(reply.c.prompt)))
)
"""Deletes the prompts of no reply. PostgreSQL would compare every prompt with every reply for a NOT IN."""
_STREAMED = 200
"""Rows that are fetched at a time where all are read."""


class ReplyCache(ABC):
    """Replies by request, in a database that several processes may use at once.

    Once `put` has returned, the reply survives a crash of the process (kill -9 included), unless the database could
    not be written. The first reply to a request is kept. There are no locks: two processes that send the same
    request at the same time both pay for it and use their own reply; later lookups return the one saved first.

    Thread-safe. In an event loop use `aget` and `put`, which do not block it.
    """

    def __init__(self, location: str, engine: sa.Engine) -> None:
        self.location = location  # its file, or its address without a password
        self._engine = engine
        # to read without transactions
        self._at_once = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._put, self._put_prompt = insert_new(reply, engine), insert_new(reply_prompt, engine)
        self._lock = threading.Lock()  # around `_unsaved`
        self._unsaved: dict[str, Rows] = {}  # replies that are not in the database yet, by key
        self._warned = False
        self._unwritable = ""  # why no reply can be saved any more; "" as long as one can
        # functions that end the run, called when no reply can be saved
        self._stops: list[Callable[[], object]] = []
        try:
            self._prepare()
        except DBAPIError as error:
            engine.dispose()
            raise self._unusable(error) from None
        except CrosscheckError:
            engine.dispose()
            raise

    # What differs between the databases

    @abstractmethod
    def _prepare(self) -> None:
        """Create the tables where they are missing, and check that the cache can be used."""

    @abstractmethod
    def _unusable(self, error: DBAPIError) -> CrosscheckError:
        """Return the user error for a database that cannot be used."""

    @abstractmethod
    def _can_retry_save(self, error: DBAPIError) -> bool:
        """Return whether a second save makes sense now; set `_unwritable` where no later one can succeed either."""

    @abstractmethod
    def _bytes(self) -> int:
        """Return the size of the stored replies in bytes."""

    def _keep_others_from_adding(self, connection: sa.Connection) -> None:  # noqa: B027 - optional
        """Let other processes wait, until the transaction ends, with adding replies."""

    def _reclaim_space(self) -> None:  # noqa: B027 - optional
        """Release the disk space of deleted replies if the database does not do so itself."""

    def _with_retry(self, work: Callable[[], T]) -> T:
        """Run a database operation, with the retries that make sense for this database."""
        return work()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run a database operation without blocking the event loop for long."""
        return work()

    def _problem(self) -> str:
        """Return why no further reply can be stored; "" if nothing is in the way."""
        return self._unwritable

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Retry to save unsaved replies, and close the connections."""
        try:
            self._with_retry(self._save)
        except DBAPIError as error:
            lost.warning(
                "The replies to %s could not be stored in %s (%s): the same command pays for them again.",
                counted(len(self._unsaved), "paid request"),
                self.location,
                reason_of(error),
            )
        self._engine.dispose()

    def stop_on_failure(self, stop: Callable[[], object]) -> None:
        """Have a function called, in the event loop, once a reply could not be stored: nothing more is to be sent."""
        self._stops.append(stop)

    def check_room(self) -> None:
        """Check, before a request is sent, that its reply can be stored."""
        if problem := self._problem():
            raise NoRoomError(problem)

    def batches(self, endpoint: str) -> BatchStore:
        """Return the store of the batches of an endpoint, in the same database."""
        return BatchStore(self._engine, self.location, endpoint)

    # Look up and store

    def get(self, key: str) -> Reply | None:
        """Return the reply to a request as first received (`cached` False); None if there is none."""
        with self._lock:
            unsaved = self._unsaved.get(key)
        try:
            row = unsaved.reply if unsaved else self._with_retry(partial(self._row, key))
        except DBAPIError as error:
            raise self._unusable(error) from None
        try:
            return None if row is None else reply_of(row)
        except ValueError as error:
            raise StoreError(self._damage(key, str(error))) from None

    def _damage(self, key: str, what: str) -> str:
        return (
            f"The reply cache {self.location} is damaged in 1 of its entries: {key} ({what}). "
            "`crosscheck clean --replies damaged` removes such entries; what is removed is paid for again when it is "
            "needed."
        )

    async def aget(self, key: str) -> Reply | None:
        """Call `get` without blocking the event loop."""
        return await self._in_thread(partial(self.get, key))

    def _row(self, key: str) -> Mapping[str, Any] | None:
        with self._at_once.connect() as connection:
            row = connection.execute(_GET, {"wanted": key}).first()
        return row._asdict() if row else None

    async def put(
        self, reply: Reply, request: Request, identity: Mapping[str, Any], backbone: str = ""
    ) -> None:
        """Store a reply under its `call.request`, also if the caller is cancelled meanwhile.

        Does not raise if the database cannot be written (full disk, lock, no connection): the reply stays in memory,
        is served from there, and is saved with the next write that succeeds. The first failure is logged as a warning.
        Where no later write can succeed either, the functions of `stop_on_failure` are called.
        """
        rows = rows_of(reply, request, identity, backbone)
        with self._lock:
            self._unsaved.setdefault(rows.reply["key"], rows)
        await self._in_thread(self._save_or_warn)
        if self._problem():
            for stop in self._stops:
                stop()

    def _save_or_warn(self) -> None:
        """Save the replies that are in memory; where the store cannot be written, warn once and keep them there."""
        try:
            try:
                self._save()
            except DBAPIError as error:
                if not self._can_retry_save(error):
                    raise
                self._save()  # once more; if this fails too, the replies stay in memory
        except DBAPIError as error:
            if not self._warned:
                self._warned = True
                log.warning(
                    "The reply cache %s cannot be written (%s). Replies are kept in memory and saved as soon as it "
                    "can be; if the run ends before, they have to be paid for again.",
                    self.location,
                    error.orig,
                )

    def _save(self) -> None:
        """Save the replies that are in memory, and remove them there, also one that no database can hold."""
        with self._lock:
            # The same order in every process, so that concurrent saves of the same replies cannot deadlock.
            replies = [self._unsaved[key] for key in sorted(self._unsaved)]
        if not replies:
            return
        if not self._try_to_save(replies) and len(replies) > 1:
            for rows in replies:  # each alone: the others can be saved
                self._try_to_save([rows])
        with self._lock:
            for rows in replies:
                self._unsaved.pop(rows.reply["key"], None)

    def _try_to_save(self, replies: Sequence[Rows]) -> bool:
        """Save replies with their prompts; return False, and save none, if no database can hold one of them."""
        prompts = {rows.prompt["digest"]: rows.prompt for rows in replies}
        try:
            with self._engine.begin() as connection:
                connection.execute(self._put_prompt, [prompts[digest] for digest in sorted(prompts)])
                connection.execute(self._put, [rows.reply for rows in replies])
        except (ValueError, OverflowError, StatementError) as error:
            if isinstance(error, DBAPIError):
                raise
            if len(replies) == 1:
                key = replies[0].reply["key"]
                log.warning(
                    "The reply %s cannot be stored (%s): it is used, and requested again.", key, error
                )
            return False
        return True

    def stats(self) -> CacheStats:
        """Count what is there, by model."""
        count = sa.func.count()
        size = sa.func.sum(sa.func.length(reply.c.text) + sa.func.length(reply.c.request))
        unpriced = count - sa.func.count(reply.c.cost_usd)
        by_model = (
            sa.select(reply.c.model, count, size, sa.func.sum(reply.c.cost_usd), unpriced)
            .group_by(reply.c.model)
            .order_by(count.desc(), reply.c.model)
        )
        try:
            with self._engine.connect() as connection:
                models = tuple(ModelStats(*row) for row in connection.execute(by_model))
            return CacheStats(self._bytes(), models)
        except DBAPIError as error:
            raise self._unusable(error) from None

    def entry(self, key: str) -> Entry | None:
        """Return the entry of a request, with the request's text; None if there is none, or a damaged one (logged)."""
        entry = next(self._entries(_WHOLE.where(reply.c.key == key)), None)
        if entry is not None and entry.damage:
            log.warning("%s", self._damage(key, entry.damage))
            return None
        return entry

    def entries(self) -> Iterator[Entry]:
        """Yield all entries, newest first."""
        yield from self._entries(_WHOLE.order_by(reply.c.created_at.desc(), reply.c.key))

    def damaged(self) -> list[str]:
        """Return the keys of the entries that cannot be read."""
        return [entry.key for entry in self.entries() if entry.damage]

    def prune(self, model: str) -> int:
        """Delete the entries of a model; return how many."""
        return self._delete(reply.c.model, [model])

    def remove(self, keys: Sequence[str]) -> int:
        """Delete entries by their keys; return how many were still there."""
        return self._delete(reply.c.key, keys)

    def _delete(self, column: sa.Column[str], values: Sequence[str]) -> int:
        """Delete the replies that have one of these values in a column, and the prompts of no reply."""
        if not values:
            return 0
        statement = sa.delete(reply).where(column == sa.bindparam("value"))
        try:
            with self._engine.begin() as connection:
                self._keep_others_from_adding(connection)
                deleted = connection.execute(statement, [{"value": value} for value in values]).rowcount
                connection.execute(_DELETE_UNUSED)
        except DBAPIError as error:
            raise self._unusable(error) from None
        self._reclaim_space()
        return deleted

    def _entries(self, query: sa.Select[Any]) -> Iterator[Entry]:
        try:
            with self._engine.connect().execution_options(yield_per=_STREAMED) as connection:
                for row in connection.execute(query):
                    yield entry_of(row._asdict())
        except DBAPIError as error:
            raise self._unusable(error) from None

"""Base class of the reply caches: replies of models by request, so that each is paid for once."""

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Engine, Insert, Table, bindparam, insert, select
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError, StatementError

from tasks.backbone.batches.store import BatchStore
from tasks.backbone.cache.entry import DamagedEntriesError, DamagedEntry, Rows, reply_of, rows_of
from tasks.backbone.cache.room import NoRoomError, lost
from tasks.backbone.cache.stored import StoredReplies
from tasks.backbone.cache.tables import reply as table
from tasks.backbone.cache.tables import reply_prompt
from tasks.backbone.protocol import Reply, Request
from tasks.core.errors import CrosscheckError
from tasks.core.wording import counted

log = logging.getLogger(__name__)

T = TypeVar("T")

_GET = select(table).where(table.c.key == bindparam("wanted"))


class ReplyCache(StoredReplies):
    """Replies by request, in a database that several processes may use at once.

    Once `put` has returned, the reply survives a crash of the process (kill -9 included), unless the database could
    not be written. The first reply to a request is kept. There are no locks: two processes that send the same
    request at the same time both pay for it and use their own reply; later lookups return the one saved first.

    Thread-safe. In an event loop use `aget` and `aput`, which do not block it.
    """

    def __init__(self, place: str, engine: Engine) -> None:
        """Create the tables where they are missing.

        Raises:
            CrosscheckError: the database is damaged, no reply cache, of a newer layout, or cannot be opened.
        """
        super().__init__(place, engine)
        self._at_once = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._put, self._put_prompt = _insert_new(table, engine), _insert_new(reply_prompt, engine)
        self._lock = threading.Lock()
        self._unsaved: dict[str, Rows] = {}
        self._warned = False
        self._unwritable = ""
        self._stops: list[Callable[[], object]] = []
        try:
            self._prepare()
        except DBAPIError as error:
            engine.dispose()
            raise self._unusable(error) from None
        except CrosscheckError:
            engine.dispose()
            raise

    @abstractmethod
    def _prepare(self) -> None:
        """Create the tables where they are missing, and check that the cache can be used."""

    def _with_retry(self, work: Callable[[], T]) -> T:
        """Run a database operation, with the retries that make sense for this database."""
        return work()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Run a database operation without blocking the event loop for long."""
        return work()

    def _connection(self) -> AbstractContextManager[Connection]:
        """Return a connection for one statement, which is committed at once."""
        return self._at_once.connect()

    def _transaction(self) -> AbstractContextManager[Connection]:
        """Return a connection whose statements are committed together."""
        return self._engine.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Retry to save unsaved replies, and close the connections."""
        try:
            self._with_retry(self._save)
        except DBAPIError as error:
            lost.warning(
                "The replies to %s could not be stored in %s (%s): the same command pays for them again.",
                counted(len(self._unsaved), "paid request"),
                self.place,
                " ".join(str(error.orig).split()).rstrip("."),
            )
        self._engine.dispose()

    def stop_on_failure(self, stop: Callable[[], object]) -> None:
        """Have a function called, in the event loop, once a reply could not be stored: nothing more is to be sent."""
        self._stops.append(stop)

    def check_room(self) -> None:
        """Check, before a request is sent, that its reply can be stored.

        Raises:
            NoRoomError: it could not.
        """
        if problem := self._problem():
            raise NoRoomError(problem)

    def _problem(self) -> str:
        """Return why no further reply can be stored, "" where nothing is known."""
        return self._unwritable

    @abstractmethod
    def _made_room(self, error: DBAPIError) -> bool:
        """Return whether a second attempt to store makes sense; note in `_unwritable` where no later one does."""

    def batches(self, endpoint: str) -> BatchStore:
        """Return the store of the batches of an endpoint, in the same database."""
        return BatchStore(self._engine, self.place, endpoint)

    def get(self, key: str) -> Reply | None:
        """Return the reply to a request as first received (`cached` False); None if there is none.

        Raises:
            StoreError: the database, or the entry, cannot be read; sending the request again could pay for it twice.
        """
        with self._lock:
            unsaved = self._unsaved.get(key)
        try:
            row = unsaved.reply if unsaved else self._with_retry(partial(self._row, key))
        except DBAPIError as error:
            raise self._unusable(error) from None
        reply = None if row is None else reply_of(row)
        if isinstance(reply, DamagedEntry):
            raise DamagedEntriesError(self.place, [reply])
        return reply

    async def aget(self, key: str) -> Reply | None:
        """Call `get` without blocking the event loop."""
        return await self._in_thread(partial(self.get, key))

    def _row(self, key: str) -> Mapping[str, Any] | None:
        with self._connection() as connection:
            row = connection.execute(_GET, {"wanted": key}).first()
        return row._asdict() if row else None

    def put(self, reply: Reply, request: Request, identity: Mapping[str, Any], backbone: str = "") -> None:
        """Store a reply under its `call.request`.

        Does not raise if the database cannot be written (full disk, lock, no connection): the reply stays in memory,
        is served from there, and is saved with the next write that succeeds. The first failure is logged as a warning.
        """
        self._hold(rows_of(reply, request, identity, backbone))
        self._save_or_warn()

    async def aput(
        self, reply: Reply, request: Request, identity: Mapping[str, Any], backbone: str = ""
    ) -> None:
        """Call `put` without blocking the event loop; if the caller is cancelled, the reply is still stored."""
        self._hold(rows_of(reply, request, identity, backbone))
        await self._in_thread(self._save_or_warn)
        if self._problem():
            for stop in self._stops:
                stop()

    def _hold(self, rows: Rows) -> None:
        with self._lock:
            self._unsaved.setdefault(rows.reply["key"], rows)

    def _save_or_warn(self) -> None:
        try:
            try:
                self._save()
            except DBAPIError as error:
                if not self._made_room(error):
                    raise
                self._save()
        except DBAPIError as error:
            if not self._warned:
                self._warned = True
                log.warning(
                    "The reply cache %s cannot be written (%s). Replies are kept in memory and saved as soon as it "
                    "can be; if the run ends before, they have to be paid for again.",
                    self.place,
                    error.orig,
                )

    def _save(self) -> None:
        with self._lock:
            # The same order in every process, so that concurrent saves of the same replies cannot deadlock.
            replies = [self._unsaved[key] for key in sorted(self._unsaved)]
        if not replies:
            return
        if not self._saved(replies) and len(replies) > 1:
            for each in replies:  # one that no database can hold is not another's loss
                self._saved([each])
        with self._lock:
            for each in replies:
                self._unsaved.pop(each.reply["key"], None)

    def _saved(self, replies: Sequence[Rows]) -> bool:
        """Save replies with their prompts; return False if no database can hold one of them, which is logged."""
        prompts = {each.prompt["digest"]: each.prompt for each in replies}
        try:
            with self._transaction() as connection:
                connection.execute(self._put_prompt, [prompts[digest] for digest in sorted(prompts)])
                connection.execute(self._put, [each.reply for each in replies])
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


def _insert_new(into: Table, engine: Engine) -> Insert:
    """Return the statement that adds rows whose key is not there yet."""
    # `on_conflict_do_nothing` only for PostgreSQL: SQLAlchemy compiles it on each call, slower than SQLite's write.
    if engine.dialect.name == "postgresql":
        return postgresql.insert(into).on_conflict_do_nothing()
    return insert(into).prefix_with("OR IGNORE")

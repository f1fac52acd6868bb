"""Stored replies as a whole: counted, listed, removed and exported."""

import datetime
import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Delete,
    Engine,
    Select,
    bindparam,
    delete,
    except_,
    func,
    select,
)
from sqlalchemy.exc import DBAPIError

from tasks.backbone.cache.entry import (
    CacheStats,
    DamagedEntriesError,
    DamagedEntry,
    Entry,
    ModelStats,
    entry_of,
    timestamp,
)
from tasks.backbone.cache.tables import reply as table
from tasks.backbone.cache.tables import reply_prompt
from tasks.core.errors import ConfigurationError, CrosscheckError
from tasks.core.files import atomic_write

log = logging.getLogger(__name__)

_WHOLE = select(table, reply_prompt.c.content).join_from(
    table, reply_prompt, table.c.prompt == reply_prompt.c.digest, isouter=True
)
"""Replies, each with its prompt."""
_DELETE_UNUSED = delete(reply_prompt).where(
    reply_prompt.c.digest.in_(except_(select(reply_prompt.c.digest), select(table.c.prompt)))
)
"""Deletes the prompts of no reply. PostgreSQL would compare every prompt with every reply for a NOT IN."""
_STREAMED = 200
"""Rows that are fetched at a time where all are read."""


class StoredReplies(ABC):
    """Base class of what is done with all stored replies of a database.

    Attributes:
        place: its file or address without a password.
    """

    def __init__(self, place: str, engine: Engine) -> None:
        self.place = place
        self._engine = engine

    @abstractmethod
    def _unusable(self, error: DBAPIError) -> CrosscheckError:
        """Return the user error for a database that cannot be used."""

    @abstractmethod
    def _bytes(self) -> int:
        """Return the size of the stored replies in bytes."""

    def _keep_others_from_adding(self, connection: Connection) -> None:  # noqa: B027 - optional
        """Let other processes wait, until the transaction ends, with adding replies."""

    def _reclaim_space(self) -> None:  # noqa: B027 - optional
        """Release the disk space of deleted replies if the database does not do so itself."""

    def entry(self, key: str) -> Entry | None:
        """Return the entry of a request, with the request's text; None if there is none, or none that can be read.

        A damaged one is logged.

        Raises:
            StoreError: the database cannot be read.
        """
        found = next(self._entries(_WHOLE.where(table.c.key == key)), None)
        if isinstance(found, DamagedEntry):
            log.warning("%s", DamagedEntriesError(self.place, [found]))
            return None
        return found

    def stats(self, older_than: datetime.timedelta | None = None) -> CacheStats:
        """Count what is there, or what was received longer ago than `older_than`, by model."""
        count, priced = func.count(), func.count(table.c.cost_usd)
        counted = (
            select(
                table.c.model,
                count,
                func.sum(table.c.cost_usd),
                count - priced,
                func.min(table.c.created_at),
                func.max(table.c.created_at),
            )
            .where(*_conditions(None, older_than))
            .group_by(table.c.model)
            .order_by(count.desc(), table.c.model)
        )
        try:
            with self._engine.connect() as connection:
                rows = connection.execute(counted).all()
            size = self._bytes()
        except DBAPIError as error:
            raise self._unusable(error) from None
        return CacheStats(
            place=self.place,
            bytes=size,
            entries=sum(row[1] for row in rows),
            oldest=min((row[4] for row in rows), default=None),
            newest=max((row[5] for row in rows), default=None),
            models=tuple(ModelStats(*row[:4]) for row in rows),
        )

    def count(self, model: str | None = None, older_than: datetime.timedelta | None = None) -> int:
        """Count the entries, only of a model, only received longer ago than `older_than`; damaged ones among them."""
        wanted = select(func.count()).select_from(table).where(*_conditions(model, older_than))
        try:
            with self._engine.connect() as connection:
                return connection.execute(wanted).scalar_one()
        except DBAPIError as error:
            raise self._unusable(error) from None

    def entries(
        self,
        model: str | None = None,
        older_than: datetime.timedelta | None = None,
        limit: int | None = None,
    ) -> Iterator[Entry | DamagedEntry]:
        """Yield at most `limit` entries, newest first, only of a model, only received longer ago than `older_than`."""
        wanted = _WHOLE.where(*_conditions(model, older_than))
        yield from self._entries(wanted.order_by(table.c.created_at.desc(), table.c.key).limit(limit))

    def prune(
        self,
        older_than: datetime.timedelta | None = None,
        model: str | None = None,
        all: bool = False,
    ) -> int:
        """Delete the entries that meet every condition given; return how many.

        Raises:
            ConfigurationError: no condition is given and `all` is False.
        """
        if older_than is None and model is None and not all:
            raise ConfigurationError(
                "Say which replies to delete: older than an age, of a model, or all of them. Deleted replies "
                "have to be paid for again."
            )
        return self._delete(delete(table).where(*_conditions(model, older_than)))

    def damaged(
        self, model: str | None = None, older_than: datetime.timedelta | None = None
    ) -> list[DamagedEntry]:
        """Return the entries that cannot be read, only of a model, only received longer ago than `older_than`."""
        return [each for each in self.entries(model, older_than) if isinstance(each, DamagedEntry)]

    def remove(self, entries: Sequence[DamagedEntry]) -> int:
        """Delete damaged entries; return how many were still there."""
        if not entries:
            return 0
        statement = delete(table).where(table.c.key == bindparam("damaged"))
        return self._delete(statement, [{"damaged": each.key} for each in entries])

    def _delete(self, statement: Delete, parameters: list[dict[str, str]] | None = None) -> int:
        try:
            with self._engine.begin() as connection:
                self._keep_others_from_adding(connection)
                deleted = connection.execute(statement, parameters).rowcount
                connection.execute(_DELETE_UNUSED)
        except DBAPIError as error:
            raise self._unusable(error) from None
        self._reclaim_space()
        return deleted

    def export(self, path: Path) -> int:
        """Write every entry as one JSON object a line, oldest first; return how many.

        A file that is there is replaced when all are written. Half of a surrogate pair is written as JSON spells it.

        Raises:
            CrosscheckError: the file cannot be written, or entries are damaged, which are named.
        """
        count, damaged = 0, []
        try:
            with (
                _whole(path) as target,
                target.open("w", encoding="utf-8", errors="backslashreplace") as file,
            ):
                for entry in self._entries(_WHOLE.order_by(table.c.created_at, table.c.key)):
                    if isinstance(entry, DamagedEntry):
                        damaged.append(entry)
                        continue
                    file.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
                    count += 1
                if damaged:
                    raise DamagedEntriesError(self.place, damaged)
        except OSError as error:
            raise CrosscheckError(f"The replies cannot be exported to {path}: {error}.") from None
        return count

    def _entries(self, wanted: Select[Any]) -> Iterator[Entry | DamagedEntry]:
        try:
            with self._engine.connect().execution_options(yield_per=_STREAMED) as connection:
                for row in connection.execute(wanted):
                    yield entry_of(row._asdict())
        except DBAPIError as error:
            raise self._unusable(error) from None


def _whole(path: Path) -> AbstractContextManager[Path]:
    """Return the draft of a file in a folder that exists; what is there and no file, as a pipe, is written itself."""
    if (path.exists() and not path.is_file()) or not path.parent.is_dir():
        return nullcontext(path)
    return atomic_write(path.resolve())


def _conditions(model: str | None, older_than: datetime.timedelta | None) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if model is not None:
        conditions.append(table.c.model == model)
    if older_than is not None:
        conditions.append(table.c.created_at < timestamp(older_than))
    return conditions

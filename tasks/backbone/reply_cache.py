"""Bought replies in one SQLite file: what was paid for once is never paid for again."""

import datetime
import json
import logging
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tasks.backbone.protocol import Reply, Request
from tasks.backbone.reply_entry import (
    COLUMNS,
    CREATE,
    CacheStats,
    Entry,
    ModelStats,
    entry_of,
    reply_of,
    row_of,
    timestamp,
)
from tasks.errors import ConfigurationError, CrosscheckError

log = logging.getLogger(__name__)

LAYOUT = 1
"""Version of the table's layout, in the file's `user_version`."""
BUSY_TIMEOUT_MS = 5000

_PUT = f"INSERT OR IGNORE INTO reply ({COLUMNS}) VALUES ({', '.join('?' * 14)})"
_GET = f"SELECT {COLUMNS} FROM reply WHERE key = ?"


class ReplyCache:
    """Replies by request, in one SQLite file that several processes may use at once.

    WAL and synchronous NORMAL: a reply that `put` has returned from survives the death of the process (kill
    -9 included), though not necessarily of the machine. Calls are made inline: they take microseconds. The
    first reply to a request stays, also when two processes bought it at the same time.

    The request is kept compressed, the reply as text, for people who look with `sqlite3`.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, creating it and its folder when missing.

        Raises:
            CrosscheckError: the file is damaged, no reply cache, of a newer layout, or cannot be opened.
        """
        self.path = Path(path)
        self._lock = threading.Lock()
        self._unsaved: dict[str, tuple[Any, ...]] = {}
        self._warned = False
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(
                self.path, timeout=BUSY_TIMEOUT_MS / 1000, isolation_level=None, check_same_thread=False
            )
            self._prepare()
        except OSError as error:
            raise CrosscheckError(f"The reply cache {self.path} cannot be opened: {error}.") from None
        except sqlite3.Error as error:
            raise self._broken(error) from None

    def _prepare(self) -> None:
        layout = self._database.execute("PRAGMA user_version").fetchone()[0]
        if layout > LAYOUT:
            raise CrosscheckError(
                f"The reply cache {self.path} was written by a newer version of Crosscheck (layout {layout}, "
                f"this one knows {LAYOUT}). Update Crosscheck, or choose another folder with --home."
            )
        self._switch_to_wal()
        self._database.execute("PRAGMA synchronous = NORMAL")
        if layout < LAYOUT:
            self._database.execute(CREATE)
            self._database.execute(f"PRAGMA user_version = {LAYOUT}")

    def _switch_to_wal(self) -> None:
        # SQLite does not wait for this lock, whatever the busy timeout; processes that start together race.
        deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1000
        while True:
            try:
                self._database.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Try once more to save what could not be saved, and close the file."""
        with self._lock:
            if self._unsaved:
                try:
                    self._save()
                except sqlite3.Error as error:
                    log.warning("%d paid replies are lost: %s: %s", len(self._unsaved), self.path, error)
            self._database.close()

    def get(self, key: str) -> Reply | None:
        """Return the reply to a request as it was bought (`cached` False); None when there is none.

        Raises:
            CrosscheckError: the file cannot be read. Buying again in silence would be worse.
        """
        with self._lock:
            row = self._unsaved.get(key)
            if row is None:
                try:
                    row = self._database.execute(_GET, (key,)).fetchone()
                except sqlite3.Error as error:
                    raise self._broken(error) from None
        return None if row is None else reply_of(row)

    def entry(self, key: str) -> Entry | None:
        """Return the whole entry of a request, what was asked included; None when there is none.

        Raises:
            CrosscheckError: the file cannot be read.
        """
        return next(self._entries(f"SELECT {COLUMNS} FROM reply WHERE key = ?", (key,)), None)

    def put(self, reply: Reply, request: Request, identity: Mapping[str, Any], backbone: str = "") -> None:
        """Keep a reply under its `call.request`.

        Never raises for a file that cannot be written (full disk, lock): the reply stays in memory, is served
        from there, and is saved with the next one that can be. The first such failure is logged as a warning.
        """
        row = row_of(reply, request, identity, backbone)
        with self._lock:
            self._unsaved[reply.call.request] = row
            try:
                self._save()
            except sqlite3.Error as error:
                if not self._warned:
                    self._warned = True
                    log.warning(
                        "The reply cache %s cannot be written (%s). Replies are kept in memory and saved as "
                        "soon as it can be; if the run ends before, they have to be bought again.",
                        self.path,
                        error,
                    )

    def _save(self) -> None:
        rows = list(self._unsaved.values())
        if len(rows) == 1:
            self._database.execute(_PUT, rows[0])
        else:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                self._database.executemany(_PUT, rows)
        self._unsaved.clear()

    def stats(self) -> CacheStats:
        """Count what is there, by model."""
        sql = (
            "SELECT model, count(*), sum(cost_usd), count(*) - count(cost_usd), min(created_at), "
            "max(created_at) FROM reply GROUP BY model ORDER BY count(*) DESC, model"
        )
        rows = list(self._rows(sql))
        files = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return CacheStats(
            path=self.path,
            bytes=sum(file.stat().st_size for file in files if file.exists()),
            entries=sum(row[1] for row in rows),
            oldest=min((row[4] for row in rows), default=None),
            newest=max((row[5] for row in rows), default=None),
            models=tuple(ModelStats(*row[:4]) for row in rows),
        )

    def entries(
        self,
        model: str | None = None,
        older_than: datetime.timedelta | None = None,
        limit: int | None = None,
    ) -> Iterator[Entry]:
        """Yield entries, newest first.

        Args:
            model: only those of this model.
            older_than: only those bought longer ago than this.
            limit: at most this many.
        """
        where, values = _filter(model, older_than)
        sql = f"SELECT {COLUMNS} FROM reply{where} ORDER BY created_at DESC, key LIMIT ?"
        yield from self._entries(sql, (*values, -1 if limit is None else limit))

    def prune(
        self,
        older_than: datetime.timedelta | None = None,
        model: str | None = None,
        all: bool = False,
    ) -> int:
        """Delete the entries that meet every condition given, and give the space back; return how many.

        Raises:
            ConfigurationError: no condition is given and `all` is False.
        """
        if older_than is None and model is None and not all:
            raise ConfigurationError(
                "Say which replies to delete: older than an age, of a model, or all of them. Deleted replies "
                "have to be bought again."
            )
        where, values = _filter(model, older_than)
        with self._lock:
            try:
                deleted = self._database.execute(f"DELETE FROM reply{where}", values).rowcount
            except sqlite3.Error as error:
                raise self._broken(error) from None
            try:
                self._database.execute("VACUUM")
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.OperationalError as error:
                log.info("%s keeps its size until the next prune: %s", self.path, error)
        return deleted

    def export(self, path: Path) -> int:
        """Write every entry as one JSON object a line, oldest first; return how many.

        Raises:
            CrosscheckError: the file cannot be written.
        """
        count = 0
        try:
            with Path(path).open("w", encoding="utf-8") as file:
                for entry in self._entries(f"SELECT {COLUMNS} FROM reply ORDER BY created_at, key"):
                    file.write(json.dumps(asdict(entry), ensure_ascii=False) + "\n")
                    count += 1
        except OSError as error:
            raise CrosscheckError(f"The replies cannot be exported to {path}: {error}.") from None
        return count

    def _entries(self, sql: str, values: tuple[Any, ...] = ()) -> Iterator[Entry]:
        for row in self._rows(sql, values):
            try:
                yield entry_of(row)
            except (zlib.error, ValueError) as error:
                raise self._broken(sqlite3.DatabaseError(f"entry {row[0]}: {error}")) from None

    def _rows(self, sql: str, values: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        # A connection of its own: rows stream past, replies are put and got in between.
        try:
            with closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_MS / 1000)) as reader:
                yield from reader.execute(sql, values)
        except sqlite3.Error as error:
            raise self._broken(error) from None

    def _broken(self, error: sqlite3.Error) -> CrosscheckError:
        if isinstance(error, sqlite3.OperationalError):
            return CrosscheckError(
                f"The reply cache {self.path} cannot be used: {error}. Check that its folder can be written, "
                "is on a local disk and not full, and that no other program holds the file."
            )
        return CrosscheckError(
            f"The reply cache {self.path} is damaged: {error}. Move the file away (with its -wal and -shm) "
            "and run the command again; its replies are then bought anew. "
            f'`sqlite3 "{self.path}" .recover` may save them.'
        )


def _filter(model: str | None, older_than: datetime.timedelta | None) -> tuple[str, tuple[str, ...]]:
    conditions, values = [], []
    if model is not None:
        conditions.append("model = ?")
        values.append(model)
    if older_than is not None:
        conditions.append("created_at < ?")
        values.append(timestamp(older_than))
    return (f" WHERE {' AND '.join(conditions)}" if conditions else ""), tuple(values)

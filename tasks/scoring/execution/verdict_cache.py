"""Verdicts of earlier runs in one SQLite file, so that the same SQL is not executed again.

A verdict is kept, never a result: rows stay inside the worker processes. It holds for the same content of the
database, gold, SQL, rules, limits, SQLite and scoring code, and is forgotten as soon as one of them changes.
"""

import hashlib
import json
import logging
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import cache
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tasks.core.errors import CrosscheckError
from tasks.core.files import digest_of_files
from tasks.core.wording import counted
from tasks.database.limits import Limits
from tasks.database.sandbox.results import is_volatile
from tasks.database.sqlite.damage import file_id, is_damage, set_aside
from tasks.database.sqlite.wal import use_wal
from tasks.scoring.execution.accuracy import VerdictKey
from tasks.scoring.report import Verdict

log = logging.getLogger(__name__)

BUSY_TIMEOUT_S = 5.0
ROOT = Path(__file__).resolve().parents[3]
DECISIVE = (
    "tasks/scoring/execution/judge_job.py",
    "tasks/scoring/execution/accuracy.py",
    "tasks/scoring/execution/rules.py",
    "tasks/scoring/execution/cells.py",
    "tasks/scoring/execution/subset.py",
    "tasks/sql/rewriting.py",
    "tasks/sql/order.py",
    "tasks/sql/parsing.py",
    "tasks/database/sqlite/authorizer.py",
    "tasks/database/sqlite/restrictions.py",
    "tasks/database/sqlite/connection.py",
    "tasks/database/sandbox/results.py",
    "tasks/database/sandbox/session.py",
    "tasks/database/plain.py",
    "tasks/database/duck/connection.py",
    "tasks/database/duck/opening.py",
    "tasks/database/servers/gate.py",
    "tasks/database/servers/mysql_connection.py",
    "tasks/database/servers/mysql_names.py",
    "tasks/database/servers/mysql_opening.py",
    "tasks/database/servers/postgresql_connection.py",
    "tasks/database/servers/postgresql_names.py",
    "tasks/database/servers/postgresql_opening.py",
    "tasks/database/servers/tokens.py",
    "tasks/database/servers/watchdog.py",
)
"""The files that decide verdicts: a change of their code, docstrings and comments apart, forgets every verdict."""

_CREATE = (
    "CREATE TABLE IF NOT EXISTS verdict "
    "(key BLOB PRIMARY KEY, verdict TEXT NOT NULL, used INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID"
)
_FIELDS = tuple(field.name for field in fields(Verdict))
MOST_WAITING = 500
LONGEST_WAIT_S = 0.5
"""Verdicts that are found in quick succession are written together: so many at most, and after so many seconds."""
DAY_S = 86_400
"""The last use of a verdict is known to the day, so that a use is seldom a write."""


class VerdictCache:
    """Verdicts by what they depend on, for `judge(..., cache=...)`.

    Queries that ask for the time or for random numbers are never kept. Calls are made inline: they take
    microseconds. Several processes may use the file at once (WAL). A write that fails is logged and no more; a
    killed process loses the verdicts of half a second at most. Both are found again by executing.
    """

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        """Open the file, creating it and its folder when missing; rename a damaged one and create a new one.

        `limits` are those of the pool that executes.

        Raises:
            CrosscheckError: the file cannot be opened or written.
        """
        self.path = Path(path)
        facts = (sqlite3.sqlite_version, asdict(limits or Limits()), code_digest())
        self._context = json.dumps(facts, sort_keys=True)
        self._used: set[bytes] = set()
        self._waiting: dict[bytes, str] = {}
        self._written = 0.0
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            file = file_id(self.path)
            try:
                self._database = _opened(self.path)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                set_aside(self.path, file, str(error), "queries are executed again")
                self._database = _opened(self.path)
        except (OSError, sqlite3.Error) as error:
            raise CrosscheckError(
                f"The cache of verdicts {self.path} cannot be used: {error}. "
                "Remove the file; all that is lost is the time to execute the queries again."
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what waits, note which verdicts were used, and close the file."""
        self._write()
        try:
            self._in_one_transaction(
                "UPDATE verdict SET used = ? WHERE key = ?", [(_today(), key) for key in self._used]
            )
        except sqlite3.Error as error:
            log.warning("%s does not note which verdicts were used: %s", self.path, error)
        self._database.close()

    def get(self, key: VerdictKey) -> Verdict | None:
        """Return a verdict; None when it is not known."""
        if _volatile(key):
            return None
        digest = self._digest(key)
        text = self._waiting.get(digest) or self._read(digest)
        try:
            return None if text is None else Verdict(**json.loads(text))
        except (ValueError, TypeError) as error:
            log.warning("%s holds a verdict that cannot be read: %s", self.path, error)
            return None

    def __setitem__(self, key: VerdictKey, verdict: Verdict) -> None:
        """Keep a verdict, unless the next execution may give another."""
        if _volatile(key):
            return
        known = {name: getattr(verdict, name) for name in _FIELDS}
        text = json.dumps(known, ensure_ascii=False).encode("utf-8", "replace").decode()
        self._waiting[self._digest(key)] = text
        if len(self._waiting) >= MOST_WAITING or time.monotonic() - self._written >= LONGEST_WAIT_S:
            self._write()

    def _digest(self, key: VerdictKey) -> bytes:
        text = json.dumps([key, self._context])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    def _read(self, digest: bytes) -> str | None:
        try:
            row = self._database.execute(
                "SELECT verdict, used FROM verdict WHERE key = ?", (digest,)
            ).fetchone()
        except sqlite3.Error as error:
            log.warning("%s cannot be read: %s", self.path, error)
            return None
        if row is None:
            return None
        if not isinstance(row[1], int):
            log.warning("A verdict in %s is damaged and is computed again.", self.path)
            return None
        if row[1] < _today():
            self._used.add(digest)
        return str(row[0])

    def _write(self) -> None:
        """Write the verdicts that wait."""
        try:
            self._in_one_transaction(
                "INSERT OR REPLACE INTO verdict VALUES (?, ?, ?)",
                [(key, text, _today()) for key, text in self._waiting.items()],
            )
        except sqlite3.Error as error:
            log.warning("%s does not keep %s: %s", self.path, counted(len(self._waiting), "verdict"), error)
        self._waiting.clear()
        self._written = time.monotonic()

    def _in_one_transaction(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if not rows:
            return
        with self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(statement, rows)


@cache
def code_digest() -> str:
    """Return sqlglot's version and the sha256 of the code that decides verdicts."""
    return f"{metadata.version('sqlglot')} {digest_of_files(ROOT / name for name in DECISIVE)}"


def _opened(path: Path) -> sqlite3.Connection:
    """Open a file of verdicts and check that it is whole.

    Raises:
        sqlite3.DatabaseError: it is damaged, or cannot be opened.
    """
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        use_wal(database, BUSY_TIMEOUT_S)
        database.execute("PRAGMA synchronous = OFF")
        database.execute(_CREATE)
        found = database.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            error = sqlite3.DatabaseError(" ".join(found.split()))
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
    except BaseException:
        database.close()
        raise
    return database


def _today() -> int:
    """Return when the present day began, in seconds since 1970."""
    return int(time.time()) // DAY_S * DAY_S


def _volatile(key: VerdictKey) -> bool:
    return is_volatile(key.sql) or is_volatile(key.gold_sql)

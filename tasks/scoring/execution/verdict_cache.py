"""Verdicts of earlier runs in one SQLite file, so that the same SQL is not executed again.

A verdict is kept, never a result: rows stay inside the worker processes. It holds for the same content of the
database, gold, SQL, rules, limits, SQLite and scoring code, and is forgotten as soon as one of them changes.
"""

import hashlib
import json
import logging
import re
import sqlite3
from dataclasses import asdict, astuple
from functools import cache
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Self

from tasks.database.limits import Limits
from tasks.errors import CrosscheckError
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
    "tasks/database/sandbox/authorizer.py",
    "tasks/database/restrictions.py",
    "tasks/database/sandbox/connection.py",
)
"""The files that decide verdicts: a change of one of them forgets every verdict, without a version to remember."""

_CREATE = "CREATE TABLE IF NOT EXISTS verdict (key BLOB PRIMARY KEY, verdict TEXT NOT NULL) WITHOUT ROWID"
_VOLATILE = re.compile(
    r"\b(random|randomblob|current_\w+)\b|['\"](now|localtime)['\"]"
    r"|\b(date|time|datetime|julianday|unixepoch)\s*\(\s*\)|\bstrftime\s*\([^,()]*\)",
    re.IGNORECASE,
)


class VerdictCache:
    """Verdicts by what they depend on, for `judge(..., cache=...)`.

    Queries that ask for the time or for random numbers are never kept. Calls are made inline: they take
    microseconds. Several processes may use the file at once (WAL). A write that fails is logged and no more: the
    verdict is found again by executing.
    """

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        """Open the file, creating it and its folder when missing.

        Args:
            path: the SQLite file.
            limits: those of the pool that executes.

        Raises:
            CrosscheckError: the file cannot be opened or is no SQLite database.
        """
        self.path = Path(path)
        facts = (sqlite3.sqlite_version, asdict(limits or Limits()), code_digest())
        self._context = json.dumps(facts, sort_keys=True)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(
                self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
            )
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = OFF")
            self._database.execute(_CREATE)
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
        """Close the file."""
        self._database.close()

    def get(self, key: VerdictKey) -> Verdict | None:
        """Return a verdict; None when it is not known."""
        if _volatile(key):
            return None
        try:
            row = self._database.execute(
                "SELECT verdict FROM verdict WHERE key = ?", (self._digest(key),)
            ).fetchone()
        except sqlite3.Error as error:
            log.warning("%s cannot be read: %s", self.path, error)
            return None
        return None if row is None else Verdict(**json.loads(row[0]))

    def __setitem__(self, key: VerdictKey, verdict: Verdict) -> None:
        """Keep a verdict, unless the next execution may give another."""
        if _volatile(key):
            return
        text = json.dumps(asdict(verdict), ensure_ascii=False).encode("utf-8", "replace").decode()
        try:
            self._database.execute("INSERT OR REPLACE INTO verdict VALUES (?, ?)", (self._digest(key), text))
        except sqlite3.Error as error:
            log.warning("%s does not keep a verdict: %s", self.path, error)

    def _digest(self, key: VerdictKey) -> bytes:
        text = json.dumps([astuple(key), self._context])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@cache
def code_digest() -> str:
    """Return the sha256 of the code that decides verdicts, sqlglot's version included."""
    digest = hashlib.sha256(metadata.version("sqlglot").encode())
    for name in DECISIVE:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def _volatile(key: VerdictKey) -> bool:
    return any(_VOLATILE.search(sql) is not None for sql in (key.sql, key.gold_sql))

"""Verdicts of earlier runs in one SQLite file, so that the same SQL is not executed again.

A verdict is kept, never a result: rows stay inside the worker processes. It holds for the same content of the
database, gold, SQL, rules, limits, SQLite and scoring code, and is not found as soon as one of them changes.
"""

import hashlib
import json
import logging
import sqlite3
from dataclasses import asdict, fields
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, Self

from tasks.core.errors import CrosscheckError, first_problem
from tasks.core.wording import counted
from tasks.database.keyed_store import KeyedStore
from tasks.database.limits import Limits
from tasks.database.sandbox.session import is_volatile
from tasks.scoring.scores import Verdict

log = logging.getLogger(__name__)

BUSY_TIMEOUT_S = 5.0
MAX_WAIT_S = 0.5
"""Seconds for which verdicts that are found in quick succession wait, to be written together."""
ROOT = Path(__file__).resolve().parents[3]
DECISIVE = ("tasks/scoring/execution", "tasks/sql", "tasks/database")
"""Folders whose code decides verdicts: after a change of any file in them, no earlier verdict is found."""


class VerdictKey(NamedTuple):
    """What a verdict depends on; `database` and `accepted` are digests of the file and of accepted results."""

    database: str
    gold_sql: str
    sql: str
    rules: tuple[str, ...]
    timeout_s: float
    accepted: str = ""


class VerdictCache:
    """Verdicts by what they depend on.

    Queries that ask for the time or for random numbers are never kept. Calls are made inline: they take
    microseconds. A write that fails is logged and no more; a killed process loses the verdicts of half a second at
    most. Both are found again by executing.
    """

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        """Open the file, creating it and its folder when missing; rename a damaged one and create a new one."""
        # what every verdict depends on beside its key
        context = (sqlite3.sqlite_version, asdict(limits or Limits()), code_digest())
        self._context = json.dumps(context, sort_keys=True)
        self.path = Path(path)
        try:
            self._store = KeyedStore(
                self.path,
                loss="queries are executed again",
                timeout_s=BUSY_TIMEOUT_S,
                durable=False,
                batch_s=MAX_WAIT_S,
            )
        except (OSError, sqlite3.Error) as error:
            raise CrosscheckError(
                f"The cache of verdicts {self.path} cannot be used: {first_problem(error)}. "
                "Remove the file; all that is lost is the time to execute the queries again."
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Write what waits, note which verdicts were used, and close the file."""
        try:
            self._store.flush()
        except (OSError, sqlite3.Error) as error:
            self._log_not_kept(error)
        self._store.close()

    def get(self, key: VerdictKey) -> Verdict | None:
        """Return the verdict that is kept; None where there is none, as for SQL that asks for the time."""
        if _volatile(key):
            return None
        try:
            text = self._store.get(self._digest(key))
            return None if text is None else Verdict(**json.loads(text))
        except (OSError, sqlite3.Error, ValueError, TypeError) as error:
            log.warning("%s holds a verdict that cannot be read: %s", self.path, error)
            return None

    def __setitem__(self, key: VerdictKey, verdict: Verdict) -> None:
        """Keep a verdict, unless its SQL asks for the time or for random numbers: the next one may be another."""
        if _volatile(key):
            return
        content = {field.name: getattr(verdict, field.name) for field in fields(verdict)}
        without_surrogates = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace").decode()
        try:
            self._store.put(self._digest(key), without_surrogates)
        except (OSError, sqlite3.Error) as error:
            self._log_not_kept(error)

    def _log_not_kept(self, error: Exception) -> None:
        log.warning("%s does not keep %s: %s", self.path, counted(self._store.discard(), "verdict"), error)

    def _digest(self, key: VerdictKey) -> str:
        text = json.dumps([key, self._context])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@cache
def code_digest() -> str:
    """Return sqlglot's version and the sha256 of the code that decides verdicts."""
    digest = hashlib.sha256(metadata.version("sqlglot").encode())
    for file in sorted(file for folder in DECISIVE for file in (ROOT / folder).rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _volatile(key: VerdictKey) -> bool:
    return is_volatile(key.sql) or is_volatile(key.gold_sql)

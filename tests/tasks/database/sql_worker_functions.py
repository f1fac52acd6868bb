"""Functions that the tests of the SQL workers run inside a worker process."""

import os
import signal
import sys
import time
from dataclasses import replace
from typing import Any

from tasks.database.sandbox.session import Result, SqlSession


def whole_result(session: SqlSession, sql: str) -> Result:
    return session.run(sql)


def agree(session: SqlSession, first: str, second: str) -> bool:
    return set(session.run(first).rows) == set(session.run(second).rows)


def counted(session: SqlSession, sql: str) -> list[int | None]:
    return [session.run(sql, count_steps=True).steps for _ in range(2)]


def steps_by_sqlite_itself(session: SqlSession, sql: str) -> int | None:
    """Return SQLite's own count of a statement's steps, None where it was compiled without it."""
    import sqlite3

    connection = sqlite3.connect(session.location.path, cached_statements=4)
    connection.execute(sql).fetchall()
    try:
        (steps,) = connection.execute("SELECT nstep FROM sqlite_stmt WHERE sql = ?", [sql]).fetchone()
    except sqlite3.OperationalError:
        return None
    return int(steps)


def statuses(session: SqlSession, first: str, second: str) -> list[tuple[str, float]]:
    results = [session.run(sql, timeout_s=timeout) for sql, timeout in ((first, 0.2), (second, 60.0))]
    return [(result.status, result.seconds) for result in results]


def capped(session: SqlSession, sql: str, max_rows: int) -> Result:
    limits = session.limits
    session.limits = replace(limits, max_rows=max_rows)
    try:
        return session.run(sql)
    finally:
        session.limits = limits


def kept(session: SqlSession, sql: str, keep_rows: int) -> Result:
    return session.run(sql, keep_rows=keep_rows)


def noisy(session: SqlSession, text: str) -> str:
    print(text)  # noqa: T201
    sys.stdout.write(text)
    os.write(1, text.encode())
    return text


def own_pid(session: SqlSession) -> int:
    return os.getpid()


def write_file(session: SqlSession, path: str) -> None:
    with open(path, "w") as file:  # noqa: PTH123
        file.write("x" * 100_000)


def greedy(session: SqlSession, megabytes: int) -> int:
    return len(bytearray(megabytes * 1024 * 1024))


def large(session: SqlSession, megabytes: int) -> str:
    return "x" * (megabytes * 1024 * 1024)


def environment(session: SqlSession) -> dict[str, str]:
    return dict(os.environ)


def fail(session: SqlSession, message: str) -> None:
    raise LookupError(message)


class AwkwardError(Exception):
    """Pickle cannot rebuild it: its constructor takes more than a message."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


def fail_awkwardly(session: SqlSession) -> None:
    raise AwkwardError("no pickle carries this", code=3)


def unpicklable(session: SqlSession) -> Any:
    return lambda: None


def where(session: SqlSession, _: None) -> str:
    return session.location.address


def slept(session: SqlSession, seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def fail_at(session: SqlSession, text: str) -> str:
    if text == "wrong":
        raise LookupError(text)
    return text


def die_at(session: SqlSession, text: str) -> str:
    if text == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return text

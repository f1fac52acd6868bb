"""A process that parses SQL within a deadline: sqlglot has none, and may take hours for a short text.

`DATE(DATE(...('now')...))` of 16 levels takes seconds, and each further level twice the time.
"""

import os
import socket
import subprocess
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PARSE_CPU_S = 2.0
"""Processor seconds of one text, so that a busy machine changes no verdict."""
ANSWER_S = 60.0
"""Seconds of a clock after which a process that does not answer is killed."""
OVER = f"its parsing takes more than {PARSE_CPU_S:g} s"
_ROOT = Path(__file__).resolve().parents[2]


class ParseProcess:
    """The process, which is started for the first text and again after it was killed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def parse(self, sql: str, dialect: str) -> Any:
        """Return what `tasks.sql.parsing.parse_here` returns; None if it takes too long, or the process ends."""
        with self._lock:
            connection = self._open()
            try:
                connection.send((sql, dialect))
                if connection.poll(ANSWER_S):
                    return connection.recv()
            except (OSError, EOFError):
                pass
            self._kill()
            return None

    def _open(self) -> Connection:
        if self._connection is None or self._process is None or self._process.poll() is not None:
            self._kill()
            ours, theirs = socket.socketpair()
            with theirs:
                self._process = subprocess.Popen(  # noqa: S603 - our own module
                    [sys.executable, "-P", "-m", "tasks.sql.parse_worker", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": str(_ROOT)},
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C reaches the parent only
                )
            self._connection = Connection(ours.detach())
        return self._connection

    def _kill(self) -> None:
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._connection = self._process = None

"""A worker process from its parent's side: start, ask, kill.

No pool of `multiprocessing` or pebble: a forked process begins with the memory of its parent, which with Prefect and
MLflow maps 557 MiB, more than the 512 MiB of a worker; a spawned one runs the user's `__main__` and inherits the keys
in the environment.
"""

import asyncio
import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tasks.core.deadline import deadline
from tasks.core.errors import DatabaseUnavailableError
from tasks.database.limits import Limits
from tasks.database.location import Location
from tasks.database.sandbox.frames import HEADER, Job, WorkerReply, framed

START_S = 60.0
"""Seconds that a process may take to start, or to import what a function needs."""
OUTSIDE = frozenset({-9, -15, -2, -1, -3})
"""Exit codes for SIGKILL, SIGTERM, SIGINT, SIGHUP and SIGQUIT, which no SQL causes: the system ends a process when
memory is short, or another process does."""

BUFFER = 1 << 20
"""Bytes of replies that wait to be read."""
ROOT = Path(__file__).resolve().parents[3]
INHERITED = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ")


class WorkerDiedError(Exception):
    """The process ended before it replied."""

    def __init__(self, message: str, *, started: bool, outside: bool) -> None:
        super().__init__(message)
        self.started = started  # whether the job may have begun
        self.outside = outside  # whether it was ended, or stopped, from outside, whatever the job


class WorkerOverranError(Exception):
    """The process did not answer in time."""


class WorkerProcess:
    """One worker process, for the loop that made it.

    Only `start`, `ask` and `wait_ended` wait; `kill` can be called from anywhere.
    """

    def __init__(self) -> None:
        self.locations: set[Location] = set()  # databases of earlier requests
        self.functions: set[str] = set()  # functions of earlier requests, which it has imported
        self._socket, worker_end = socket.socketpair()
        self._writer: asyncio.StreamWriter | None = None
        try:
            # -P, -S: imports come from PYTHONPATH alone; a session of its own: Ctrl-C reaches the parent only
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-S", "-m", "tasks.database.sandbox.worker"],
                stdin=worker_end.fileno(),
                stdout=worker_end.fileno(),
                env=_environment(),
                start_new_session=True,
            )
        except BaseException:
            self._socket.close()
            raise
        finally:
            worker_end.close()

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    async def start(self, limits: Limits) -> None:
        """Send it its limits and wait until it can take a job.

        Raises:
            WorkerDiedError: the process was ended from outside meanwhile.
        """
        try:
            async with deadline(START_S):
                self._reader, self._writer = await asyncio.open_connection(sock=self._socket, limit=BUFFER)
                await self._send(framed(limits))
                await self._receive()
        except (OSError, EOFError) as error:
            if isinstance(error, TimeoutError):
                reason = f"not within {START_S:g} s"
            else:
                await self._wait_for_end()
                if self._process.poll() in OUTSIDE:
                    raise WorkerDiedError(self._how_it_ended(), started=False, outside=True) from error
                reason = self._how_it_ended() or type(error).__name__
            raise DatabaseUnavailableError(
                f"A worker process for SQL did not start ({reason}); what it printed stands above. Its memory limit is "
                f"{limits.memory_mb} MiB. "
                f"Try it by hand: {sys.executable} -m tasks.database.sandbox.worker"
            ) from error

    async def ask(self, job: Job, frame: bytes, timeout_s: float) -> WorkerReply:
        """Send the frame of a job and wait for its reply.

        Raises:
            WorkerOverranError: no reply within `timeout_s`, plus `START_S` to import a function, or to open a
                database, that is new to this worker; or a query overran its own deadline.
            WorkerDiedError: the process ended first.
        """
        if job.function not in self.functions or job.location not in self.locations:
            timeout_s += START_S
            self.functions.add(job.function)
            self.locations.add(job.location)
        sent = False
        try:
            async with deadline(timeout_s):
                await self._send(frame)
                sent = True
                reply: WorkerReply = await self._receive()
                return reply
        except TimeoutError as error:
            if self._stands_still():
                raise WorkerDiedError("SIGSTOP", started=sent, outside=True) from error
            raise WorkerOverranError from error
        except (OSError, EOFError) as error:
            await self._wait_for_end()
            exit_code = self._process.poll()
            if exit_code == -signal.SIGALRM:  # the worker's own alarm for a query that overran its deadline
                raise WorkerOverranError from error
            raise WorkerDiedError(self._how_it_ended(), started=sent, outside=exit_code in OUTSIDE) from error

    def kill(self) -> None:
        """End it at once; a pending `ask` raises WorkerDiedError."""
        self._process.kill()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _stands_still(self) -> bool:
        """Return whether it was stopped by SIGSTOP."""
        import psutil

        with contextlib.suppress(psutil.Error):
            return bool(psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED)
        return False

    async def wait_ended(self) -> None:
        """Wait until a killed process is reaped, and close its pipe, even where the wait is cancelled."""
        pause = 0.001
        try:
            while self.alive:
                await asyncio.sleep(pause)
                pause = min(2 * pause, 0.05)
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
            if self._writer is not None:
                self._writer.transport.abort()
            self._socket.close()

    async def _wait_for_end(self) -> None:
        """Give a process that closed its pipe a second to end, so that its exit code is known."""
        until = time.monotonic() + 1.0
        while self.alive and time.monotonic() < until:
            await asyncio.sleep(0.001)

    def _how_it_ended(self) -> str:
        code = self._process.poll()
        if code is None:
            return ""
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    async def _send(self, frame: bytes) -> None:
        assert self._writer is not None, "it is started"
        self._writer.write(frame)
        await self._writer.drain()

    async def _receive(self) -> Any:
        (size,) = HEADER.unpack(await self._reader.readexactly(HEADER.size))
        return pickle.loads(await self._reader.readexactly(size))  # noqa: S301 - written by our own worker


def _environment() -> dict[str, str]:
    """Return an environment in which the worker finds what the parent finds, without looking for it itself.

    Secrets stay out: the worker runs untrusted SQL and needs none of them.
    """
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    folders = [str(ROOT), *(folder for folder in sys.path if folder)]
    # one malloc arena: a second one would take 64 MiB of the memory limit for nothing
    return {**inherited, "PYTHONPATH": os.pathsep.join(dict.fromkeys(folders)), "MALLOC_ARENA_MAX": "1"}

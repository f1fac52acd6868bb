"""A worker process of the SQL sandbox, `python -m tasks.database.sandbox.worker`.

It reads frames from its standard input and answers on its standard output, which nothing else can reach:
both are moved away before anything runs, and what a job prints is lost. The first frame holds its limits.
It imports little, so that a killed worker is replaced within 0.1 s; what a job needs beyond that is imported
with the job.

It ends when its parent closes the pipe or ends, even in the middle of a query.
"""

import contextlib
import fcntl
import os
import pickle
import pkgutil
import resource
import select
import signal
import sys
import threading
import traceback
from collections import OrderedDict
from functools import cache
from io import BufferedReader, BufferedWriter

from tasks.core.errors import CrosscheckError, ExtensionError
from tasks.core.registry import described, extension_location
from tasks.database.limits import MIB, Limits
from tasks.database.location import Location
from tasks.database.sandbox.frames import HEADER, Job, WorkerReply, framed
from tasks.database.sandbox.session import SqlSession

OPEN_DATABASES = 16
"""Connections kept open; the least recently used one is closed for the next."""


def main() -> None:
    """Execute jobs until the parent ends."""
    jobs, replies = _private_pipes()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The limit of memory counts the stack of the thread that waits for the parent's end.
    threading.stack_size(256 * 1024)
    threading.Thread(target=_end_with_parent, args=(jobs.fileno(), os.getppid()), daemon=True).start()
    first_message = _read(jobs)
    if first_message is None:  # the parent has ended
        return
    limits: Limits = pickle.loads(first_message)  # noqa: S301 - written by the parent process
    restrict_process(limits)
    sessions: OrderedDict[Location, SqlSession] = OrderedDict()
    _write(replies, WorkerReply("ready"))
    # standard error to standard output: the parent reads it no further, and a full pipe would block
    os.dup2(1, 2)
    while (message := _read(jobs)) is not None:
        reply = _run_job(message, sessions, limits)
        _write(replies, reply)
        if reply.spent:  # memory is short: the parent replaces this process
            return


def restrict_process(limits: Limits) -> None:
    """Bound this process's memory, and forbid it to dump core and, unless it builds a file, to write files.

    Where RLIMIT_AS is ignored (macOS), SQLite's own heap limit remains.
    """
    sys.dont_write_bytecode = True
    maximums = {resource.RLIMIT_AS: limits.memory_mb * MIB, resource.RLIMIT_CORE: 0}
    if not limits.writes_files:
        maximums[resource.RLIMIT_FSIZE] = 0
    for kind, value in maximums.items():
        _, hard = resource.getrlimit(kind)
        bounded = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (bounded, bounded))


_function_named = cache(pkgutil.resolve_name)
"""Returns the module-level function of a "module:qualname"."""


def _run_job(message: bytes, sessions: "OrderedDict[Location, SqlSession]", limits: Limits) -> WorkerReply:
    """Do a pickled job and reply what it returned or raised; after a lack of memory, that this process is `spent`."""
    try:
        job: Job = pickle.loads(message)  # noqa: S301 - written by the parent process
        function = _function_named(job.function)
        session = _session(job.location, sessions, limits)
        session.expect(job.content)
        session.grant(job.budget_s)
        value = function(session, *job.args)
        return WorkerReply("returned", value, spent=session.spent)
    except MemoryError:
        return WorkerReply("exhausted", spent=True)
    except Exception as error:
        return WorkerReply("raised", _portable(error), traceback.format_exc())


def _session(location: Location, sessions: "OrderedDict[Location, SqlSession]", limits: Limits) -> SqlSession:
    """Return the session of a database; of those that are open, the one unused for longest is closed."""
    session = sessions.get(location)
    if session is None:
        session = sessions[location] = SqlSession(location, limits, _end_after)
        if len(sessions) > OPEN_DATABASES:
            _, unused_longest = sessions.popitem(last=False)
            unused_longest.close()
    else:
        sessions.move_to_end(location)
    return session


def _end_after(seconds: float) -> None:
    """End this process by SIGALRM after so many seconds, whatever it does then; 0 calls that off."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _portable(error: Exception) -> Exception:
    """Return the exception, or one with the same message where an engine of a package raised it or pickling fails."""
    if not isinstance(error, CrosscheckError) and extension_location(error):
        return ExtensionError(described(error))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own exception
    except Exception:  # pickling runs code of the exception's own class; the message is kept
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _private_pipes() -> tuple[BufferedReader, BufferedWriter]:
    """Move standard input and output to other descriptors; what a job prints is discarded."""
    # above standard error, which the parent may have closed and `main` redirects
    jobs, replies = (fcntl.fcntl(stream, fcntl.F_DUPFD, 3) for stream in (0, 1))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return os.fdopen(jobs, "rb"), os.fdopen(replies, "wb")


def _read(pipe: BufferedReader) -> bytes | None:
    head = pipe.read(HEADER.size)
    if len(head) < HEADER.size:
        return None
    (length,) = HEADER.unpack(head)
    return pipe.read(length)


def _write(pipe: BufferedWriter, reply: WorkerReply) -> None:
    """Send a reply; where it cannot be pickled, the error with which that fails."""
    try:
        frame = framed(reply)
    except MemoryError:
        frame = framed(WorkerReply("exhausted", spent=True))
    except Exception as error:
        kind = type(reply.value).__name__
        text = reply.traceback or traceback.format_exc()
        frame = framed(
            WorkerReply("raised", TypeError(f"a {kind} cannot leave the worker: {error}"), text, reply.spent)
        )
    pipe.write(frame)
    pipe.flush()


def _end_with_parent(pipe: int, parent: int) -> None:
    """Exit at once when the pipe is closed or the parent has ended, also while the main thread runs a query."""
    poll = select.poll()
    poll.register(pipe, 0)
    while not poll.poll(1000) and os.getppid() == parent:
        pass
    os._exit(0)


if __name__ == "__main__":
    try:
        main()
    except ConnectionError:  # the parent was killed: no traceback on its terminal
        os._exit(0)

"""Wrapper of a command that ends its whole process tree when standard input closes.

`python -m flows.prefect.process_tree COMMAND...`: standard input also closes when the parent is killed, so no
process outlives `crosscheck up`, even where a process starts others in sessions of their own, as Prefect's worker does.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

import psutil

GRACE_PERIOD_S = 12.0
"""Time between SIGTERM and SIGKILL."""
_PR_SET_CHILD_SUBREAPER = 36


def run(command: Sequence[str]) -> int:
    """Run a command until it ends or standard input closes; return its exit status, 128 + n for a signal n."""
    closed = threading.Event()
    _adopt_orphans()
    main = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - the command that the parent asks for
    threading.Thread(target=_watch_standard_input, args=(closed,), daemon=True).start()
    while main.poll() is None and not closed.wait(0.1):
        pass
    _end_process_tree(main)
    status = main.wait()
    return status if status >= 0 else 128 - status


def _watch_standard_input(closed: threading.Event) -> None:
    # The raw file: a buffered reader's lock, held by this thread, would abort the interpreter at its end.
    while os.read(0, 1024):
        pass
    closed.set()


def _end_process_tree(main: "subprocess.Popen[bytes]") -> None:
    """Send SIGTERM to every process below this one, then SIGKILL to those that run after the grace period."""
    _send(signal.SIGTERM, main)
    killed_at = time.monotonic() + GRACE_PERIOD_S
    while _running(main):
        if time.monotonic() >= killed_at:
            _send(signal.SIGKILL, main)
        time.sleep(0.05)


def _send(number: signal.Signals, main: "subprocess.Popen[bytes]") -> None:
    for process in _running(main):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _running(main: "subprocess.Popen[bytes]") -> "list[psutil.Process | subprocess.Popen[bytes]]":
    """Reap the processes below this one that have ended, and return those that run."""
    # The main process is left to its Popen object, which loses the exit status when another call reaps it.
    others = [child for child in psutil.Process().children(recursive=True) if child.pid != main.pid]
    _, running = psutil.wait_procs(others, timeout=0)
    return running if main.poll() is not None else [main, *running]


def _adopt_orphans() -> None:
    """Make this process the parent of orphaned processes below it, so that they stay in its tree (Linux only)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))

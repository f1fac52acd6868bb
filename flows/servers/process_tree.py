"""Wrapper of a command that ends its whole process tree on a stop request or when the parent process ends.

`python -m flows.servers.process_tree DELAY COMMAND...`: standard input that closes is a request to stop. It also
closes when the parent is killed, so no process outlives `crosscheck up`, even where a process starts others in
sessions of their own, as Prefect's worker does.
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


def run(command: Sequence[str], shutdown_delay_s: float = 0.0) -> int:
    """Run a command until it ends or a stop is requested; return its exit status, 128 + n for a signal n.

    SIGINT requests a stop, SIGTERM a stop without a grace period.

    Args:
        command: program and arguments.
        shutdown_delay_s: seconds between the closing of standard input and the stop, in which other services can
            still send requests to this one.
    """
    stop, kill = threading.Event(), threading.Event()

    def stop_at_once(_number: int, _frame: object) -> None:
        kill.set()
        stop.set()

    signal.signal(signal.SIGTERM, stop_at_once)
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    _become_subreaper()
    main = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - the command that the parent asks for
    threading.Thread(target=_watch_standard_input, args=(stop, kill, shutdown_delay_s), daemon=True).start()
    while main.poll() is None and not stop.is_set():
        time.sleep(0.1)
    _end_process_tree(main, kill)
    code = main.wait()
    return code if code >= 0 else 128 - code


def _watch_standard_input(stop: threading.Event, kill: threading.Event, delay_s: float) -> None:
    # The raw file: a buffered reader's lock, held by this thread, would abort the interpreter at its end.
    while os.read(0, 1024):
        pass
    kill.wait(delay_s)
    stop.set()


def _end_process_tree(main: "subprocess.Popen[bytes]", kill: threading.Event) -> None:
    """Send SIGTERM to every process below this one, then SIGKILL to those that run after the grace period."""
    for process in _running(main):
        _send(process, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_PERIOD_S
    while _running(main) and time.monotonic() < deadline and not kill.is_set():
        time.sleep(0.05)
    while running := _running(main):
        for process in running:
            _send(process, signal.SIGKILL)
        time.sleep(0.02)


def _running(main: "subprocess.Popen[bytes]") -> "list[psutil.Process | subprocess.Popen[bytes]]":
    """Reap the processes below this one that have ended, and return those that run."""
    # The main process is left to its Popen object, which loses the exit status when another call reaps it.
    others = [each for each in psutil.Process().children(recursive=True) if each.pid != main.pid]
    _, running = psutil.wait_procs(others, timeout=0)
    return running if main.poll() is not None else [main, *running]


def _send(process: "psutil.Process | subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _become_subreaper() -> None:
    """Make this process the parent of orphaned processes below it, so that they stay in its tree (Linux only)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(run(sys.argv[2:], float(sys.argv[1])))

"""Runs one command and everything it starts, and ends all of it when its own parent stops or dies.

`python -m flows.servers.guard LINGER COMMAND...`: closing standard input is the order to stop. A kill of the parent
closes it too, so nothing outlives `crosscheck up`, also where its children start processes in sessions of their own,
as Prefect's worker does.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

GRACE_S = 12.0
"""How long processes have to end in order before they are killed."""
_PR_SET_CHILD_SUBREAPER = 36


def run(command: Sequence[str], linger_s: float = 0.0) -> int:
    """Run a command until it ends or standard input closes; return its exit status, 128 + n for a signal n.

    Must be the leader of a process group of its own.

    Args:
        command: the words.
        linger_s: seconds to go on after standard input has closed, for those who still have to say good-bye to it.
    """
    stop, hurry = threading.Event(), threading.Event()

    def at_once(_number: int, _frame: object) -> None:
        hurry.set()
        stop.set()

    signal.signal(signal.SIGTERM, at_once)
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    _adopt_orphans()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - what our parent asks for
    threading.Thread(target=_watch, args=(stop, hurry, linger_s), daemon=True).start()
    while child.poll() is None and not stop.is_set():
        time.sleep(0.1)
    _end(child, hurry)
    code = child.returncode if child.returncode is not None else 1
    return code if code >= 0 else 128 - code


def _watch(stop: threading.Event, hurry: threading.Event, linger_s: float) -> None:
    # The raw file: a buffered reader's lock, held by this thread, would abort the interpreter at its end.
    while os.read(0, 1024):
        pass
    hurry.wait(linger_s)
    stop.set()


def _end(child: "subprocess.Popen[bytes]", hurry: threading.Event) -> None:
    """Ask every process below this one to end, and kill those that do not."""
    _signal_all(child, signal.SIGTERM)
    deadline = time.monotonic() + GRACE_S
    while _alive(child) and time.monotonic() < deadline and not hurry.is_set():
        time.sleep(0.05)
    while _alive(child):
        _signal_all(child, signal.SIGKILL)
        time.sleep(0.02)


def _alive(child: "subprocess.Popen[bytes]") -> bool:
    child.poll()
    if _listed():
        _reap(child.pid)
        return bool(_descendants())
    return child.returncode is None


def _reap(main: int) -> None:
    """Take leave of adopted processes that have ended; the main one is the business of its Popen object."""
    for pid in _descendants():
        if pid != main:
            with contextlib.suppress(ChildProcessError, OSError):
                os.waitpid(pid, os.WNOHANG)


def _signal_all(child: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    if not _listed():
        # Only the group is known here, and this process is in it: it goes down with the others.
        child.terminate() if number == signal.SIGTERM else os.killpg(0, number)
        return
    for pid in _descendants():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _listed() -> bool:
    """Say whether the system lists all processes in /proc."""
    return Path("/proc/self/stat").exists()


def _descendants() -> list[int]:
    """Return the processes below this one that run, zombies of others left out."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names are all that is needed, twenty times a second
        if not entry.isdigit():
            continue
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{entry}/stat").read_text(encoding="utf-8", errors="replace")
            fields = status.rpartition(")")[2].split()
            parent = int(fields[1])
            if fields[0] != "Z" or parent == os.getpid():
                children[parent].append(int(entry))
    found, waiting = [], [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _adopt_orphans() -> None:
    """Become the parent of processes below this one whose own parent ends, so that they are still found (Linux)."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(run(sys.argv[2:], float(sys.argv[1])))

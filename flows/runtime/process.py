"""This process: signals, log file, garbage collection, import in the background, and its end.

What a module defines stays, and searching it for garbage is a quarter of the time that Prefect and MLflow take to
import. Objects without references are removed at once as always; this is about circles of references only.
"""

import atexit
import gc
import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NoReturn

SELDOM = (10_000, 50, 10)
"""New objects after which these are searched (Python's own: 700), such searches before the survivors of earlier ones
are searched too, and searches of those before all objects are."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def bypass_proxy_on_loopback() -> None:
    """Let this process and those below it reach servers on this machine without a proxy of the environment."""
    no_proxy = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    hosts = [host.strip() for host in no_proxy.split(",") if host.strip()]
    if "*" not in hosts:
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(dict.fromkeys((*hosts, *LOOPBACK)))


def collect_garbage_seldom() -> None:
    """Search for garbage seldom in this process, which belongs to Crosscheck."""
    gc.set_threshold(*SELDOM)
    # At its end Python removes what is garbage then. DuckDB prints what is left of it as leaks.
    atexit.register(gc.unfreeze)


_import_lock = threading.RLock()


@contextmanager
def importing() -> Iterator[None]:
    """Do not search for garbage while the body imports large libraries, and never in what exists at its end.

    Threads import one after the other: libraries that two threads begin to import may see each other half imported.
    """
    with _import_lock:
        if gc.get_threshold() != SELDOM:  # a user's program, which searches as always
            yield
            return
        gc.disable()
        try:
            yield
        finally:
            gc.freeze()
            gc.enable()


@cache
def import_in_background() -> threading.Thread:
    """Begin to import MLflow and its SQLite store in a thread, once: it takes seconds, and is not needed at once.

    MLflow imports `importlib_metadata`. While that module is only half imported, other threads that look for entry
    points fail, so it is imported here. MLflow also removes a variable from the environment when it is imported, and
    threads that read the environment at that moment fail, so it is removed here.
    """
    import importlib_metadata  # noqa: F401

    from tasks.results.mlflow.store import import_store

    # The variable is there only if the program that started this process uses MLflow itself.
    os.environ.pop("_MLFLOW_TELEMETRY_SESSION_ID", None)

    def import_mlflow() -> None:
        with importing():
            import_store()

    thread = threading.Thread(target=import_mlflow, name="import mlflow", daemon=True)
    thread.start()
    return thread


def forbid_core_dumps() -> None:
    """Let no crash of this process, or of one that it starts from now on, write its memory to a file."""
    try:
        import resource
    except ImportError:  # Windows, which has no core dumps
        return
    _, hard_limit = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard_limit))


class _StandardStream(io.FileIO):
    """Standard output or error where some errors end no command, and do not change its exit code."""

    def __init__(self, number: int, ignored: type[OSError]) -> None:
        """Open a stream by its file descriptor; after an error of the type `ignored`, what is written is lost."""
        super().__init__(number, "w", closefd=False)
        self._ignored = ignored

    def write(self, content: Any) -> int:
        """Write as much as can be written; the rest is lost."""
        with suppress(self._ignored):
            return super().write(content)
        return len(content)


IGNORED_ERRORS: dict[str, type[OSError]] = {"stdout": BrokenPipeError, "stderr": OSError}
"""Errors of writing that end no command: the reader has ended (`| head`); messages fill the disk (`2> log`)."""


def open_closed_streams() -> None:
    """Open standard streams that were closed (`>&-`, as under cron), so that nothing else gets their numbers.

    They become streams that ignore `IGNORED_ERRORS`.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest free number
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - no path
    for number, (name, ignored) in enumerate(IGNORED_ERRORS.items(), 1):
        original = getattr(sys, name)
        original.flush()
        buffer = io.BufferedWriter(_StandardStream(number, ignored))
        by_line = name == "stderr" or original.line_buffering
        setattr(
            sys, name, io.TextIOWrapper(buffer, original.encoding, original.errors, line_buffering=by_line)
        )


class FastExit:
    """Ends the process as soon as its exit functions have run; made before anything that registers one.

    Python runs exit functions in the reverse order, after it has waited for threads; those that were registered before
    this are not run. What ends the process otherwise than by `with_code` ends it as always.
    """

    def __init__(self) -> None:
        self._code: int | None = None
        atexit.register(self._end)

    def with_code(self, code: int) -> NoReturn:
        """Exit with a code."""
        self._code = code
        sys.exit(code)

    def _end(self) -> None:
        if self._code is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):  # Python reports that itself when it ends
            return
        os._exit(self._code)

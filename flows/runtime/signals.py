"""Signals and the log file: the first Ctrl-C or SIGTERM asks for an orderly stop, the second ends the process."""

import asyncio
import logging
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType

from flows.runtime.control import Control
from tasks.backbone.cache.room import lost
from tasks.core import registry
from tasks.database import sqlite_files as damage
from tasks.settings.home import Home


def _signals() -> tuple[signal.Signals, ...]:
    """Return the signals to handle; not the one of a closing terminal, where `nohup` has it ignored."""
    hangup = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    return signal.SIGINT, signal.SIGTERM, *hangup


def _leave_terminal() -> None:
    """Print to nowhere what went to the terminal, which has closed: writing to it would be an error."""
    with open(os.devnull, "w", encoding="utf-8") as null:  # noqa: PTH123 - no path
        for stream in (1, 2):
            with suppress(OSError):
                if stat.S_ISCHR(os.fstat(stream).st_mode):
                    os.dup2(null.fileno(), stream)


@contextmanager
def stopped_by_signals(on_first: Callable[[], None] = lambda: None) -> Iterator[threading.Event]:
    """Yield an event that the first signal sets, for work outside of an event loop; a second one interrupts it."""
    stop = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        on_first()

    previous_handlers = {number: signal.signal(number, handle) for number in _signals()}
    try:
        yield stop
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


@contextmanager
def stopping_on_signals(control: Control, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let the first signal ask for a stop and the second for an immediate one, while the loop runs.

    Only the main thread of a process gets signals; in another, `control.ask_to_stop` alone stops the loop's work.
    """
    control.loop = loop
    if threading.current_thread() is not threading.main_thread():
        try:
            yield
        finally:
            control.loop = None
        return
    numbers = _signals()

    def stop(number: signal.Signals) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        control.ask_to_stop()

    def take_signals() -> None:
        for number in numbers:
            loop.add_signal_handler(number, stop, number)

    take_signals()
    # Each flow run calls it again, since Prefect replaces the handler of SIGTERM.
    control.take_signals = take_signals
    try:
        yield
    finally:
        control.take_signals = lambda: None
        control.loop = None
        for number in numbers:
            loop.remove_signal_handler(number)


def log_file(home: Home) -> Path:
    """Return the path of the working folder's log."""
    return home.path / "crosscheck.log"


MAX_LOG_BYTES = 10_000_000
"""Size at which a log is renamed, in place of the one before it."""


class _LogFile(RotatingFileHandler):
    """File whose last lines are dropped where it cannot be written."""

    def close(self) -> None:
        with suppress(OSError):  # of a line that is not on the disk yet
            super().close()


@contextmanager
def logging_to(home: Home) -> Iterator[None]:
    """Write warnings to the log file; the terminal gets those about damaged files, lost replies and packages."""
    terminal = logging.StreamHandler()
    terminal.setFormatter(logging.Formatter("crosscheck: %(message)s"))
    for log in (damage.log, lost, registry.log):
        log.addHandler(terminal)
    handler = _LogFile(log_file(home), maxBytes=MAX_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    handler.setLevel(logging.WARNING)
    root = logging.getLogger()
    root.addHandler(handler)
    logging.captureWarnings(True)
    # A line that cannot be written, for example on a full disk, is dropped without a traceback.
    raise_exceptions = logging.raiseExceptions
    logging.raiseExceptions = False
    try:
        yield
    finally:
        logging.raiseExceptions = raise_exceptions
        logging.captureWarnings(False)
        root.removeHandler(handler)
        for log in (damage.log, lost, registry.log):
            log.removeHandler(terminal)
        handler.close()

"""Ctrl-C, SIGTERM and a terminal that closes: the first asks for an orderly stop, the second for an immediate one."""

import asyncio
import os
import signal
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from flows.runtime.control import Control


def _interrupt() -> None:
    raise KeyboardInterrupt


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
def stopped_by_signals(
    on_first: Callable[[], None] = lambda: None, on_repeat: Callable[[], None] = _interrupt
) -> Iterator[threading.Event]:
    """Yield an event that the first signal sets, for work outside of an event loop.

    Args:
        on_first: called after the event is set.
        on_repeat: called at every further signal; by default it raises KeyboardInterrupt.
    """
    stop = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            _leave_terminal()
        if stop.is_set():
            on_repeat()
        else:
            stop.set()
            on_first()

    before = {number: signal.signal(number, handle) for number in _signals()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
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
    control.take_signals = take_signals
    try:
        yield
    finally:
        control.take_signals = lambda: None
        control.loop = None
        for number in numbers:
            loop.remove_signal_handler(number)

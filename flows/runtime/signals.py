"""Ctrl-C and SIGTERM: the first asks for an orderly stop, the second for an immediate one."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from flows.runtime.control import Control

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _interrupt() -> None:
    raise KeyboardInterrupt


@contextmanager
def stopped_by_signals(
    on_first: Callable[[], None] = lambda: None, on_repeat: Callable[[], None] = _interrupt
) -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C or SIGTERM sets, for work outside of an event loop.

    Args:
        on_first: called after the event is set.
        on_repeat: called at every further signal; by default it raises KeyboardInterrupt.
    """
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            on_repeat()
        else:
            stop.set()
            on_first()

    before = {number: signal.signal(number, handle) for number in SIGNALS}
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

    def take_signals() -> None:
        for number in SIGNALS:
            loop.add_signal_handler(number, control.ask_to_stop)

    take_signals()
    control.take_signals = take_signals
    try:
        yield
    finally:
        control.take_signals = lambda: None
        control.loop = None
        for number in SIGNALS:
            loop.remove_signal_handler(number)

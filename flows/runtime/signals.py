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
def stopping_on_signals(control: Control) -> Iterator[None]:
    """Let the first signal set `control.stop` and the second `control.hurry`, while the loop runs."""

    def stop() -> None:
        if control.stop.is_set():
            control.hurry.set()
        else:
            control.stop.set()
            control.progress.step("Stopping: waiting for calls in flight (again to stop at once)")

    def listen() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)

    loop = asyncio.get_running_loop()
    listen()
    control.listen = listen
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

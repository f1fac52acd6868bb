"""Ctrl-C and SIGTERM: what runs is asked to stop in order, and stopped at once when asked again."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from flows.runtime.control import Control


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Give work outside of an event loop an event that the first Ctrl-C (or SIGTERM) sets; the second ends it."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    for number in before:
        signal.signal(number, ask_to_stop)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopping_on_signals(control: Control) -> Iterator[None]:
    """Let the first Ctrl-C (or SIGTERM) end the evaluation in this event loop in order, the second at once."""

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

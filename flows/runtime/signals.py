"""Ctrl-C and SIGTERM: the first asks for an orderly stop, the second for an immediate one."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from flows.runtime.control import Control

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Yield an event that the first signal sets, for work outside of an event loop; the second raises."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in SIGNALS}

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
def stopping_on_signals(control: Control, loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let the first signal set `control.stop` and the second `control.stop_now`, while the loop runs."""

    def stop() -> None:
        if control.stop.is_set():
            control.stop_now.set()
        else:
            control.stop.set()
            control.progress.step("Stopping: waiting for calls in flight (again to stop at once)")

    def take_signals() -> None:
        for number in SIGNALS:
            loop.add_signal_handler(number, stop)

    take_signals()
    control.take_signals = take_signals
    try:
        yield
    finally:
        control.take_signals = lambda: None
        for number in SIGNALS:
            loop.remove_signal_handler(number)

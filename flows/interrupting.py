"""Ctrl-C for work that runs outside of an event loop."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Give an event that the first Ctrl-C (or SIGTERM) sets; the second ends the program at once."""
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

"""Work with an event loop of its own, called from a thread in which another loop may run, as in a notebook."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

from flows.runtime.control import Control

T = TypeVar("T")

_ONE_AT_A_TIME = threading.Lock()


def in_thread(work: Callable[[], T], control: Control | None = None) -> T:
    """Run blocking work in a thread of its own and return its result.

    Args:
        work: the work; it may start an event loop.
        control: what Ctrl-C, or the interrupt of a notebook's cell, asks to stop: in order, and at the second time at
            once. None: the interrupt is raised immediately, and the work ends on its own.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # raised again in the calling thread
            done.set_exception(error)

    def interrupted(*_: Any) -> None:
        if control is None or control.stop_now.is_set() or done.done():
            raise KeyboardInterrupt
        control.ask_to_stop()

    with _on_interrupt(interrupted):
        threading.Thread(target=run, name="crosscheck", daemon=True).start()
        return done.result()


@contextmanager
def _on_interrupt(handler: Callable[..., None]) -> Iterator[None]:
    """Handle SIGINT by a function, which an interrupt in its middle cannot break as it could an `except` clause."""
    if threading.current_thread() is not threading.main_thread():  # which alone receives signals
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)  # None: it was not set by Python


@contextmanager
def restored_environment() -> Iterator[None]:
    """Restore the environment's variables at the end, which configure Prefect in between; one block at a time."""
    with _ONE_AT_A_TIME:
        before = dict(os.environ)
        try:
            yield
        finally:
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)

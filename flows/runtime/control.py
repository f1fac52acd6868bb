"""What surrounds a running evaluation: who hears of its progress, and how it is asked to stop.

A flow's parameters are its settings, nothing else; this travels beside them.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from flows.runtime.budget import Budget
from tasks.errors import CrosscheckError


class Interrupted(CrosscheckError):  # noqa: N818 - a signal, not an error
    """The user asked to stop; everything answered so far is kept."""

    exit_code = 130


class Progress(Protocol):
    """Somebody who wants to know how far an evaluation is.

    Attributes:
        notes: what is worth reading after the run, in sentences.
    """

    notes: list[str]

    def step(self, text: str) -> None:
        """Hear what is being done now, in one line."""
        ...

    def questions(self, total: int, restored: int) -> None:
        """Hear how many questions there are, and how many of them the cache answered completely."""
        ...

    def answered(self, *, failed: bool, calls: int) -> None:
        """Hear that a question is through, with its count of paid calls."""
        ...

    def judged(self, *, correct: bool) -> None:
        """Hear that a question has been scored."""
        ...

    def note(self, text: str) -> None:
        """Hear something worth reading after the run, in one sentence."""
        ...


class Silence:
    """Wants to know nothing, but keeps the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def step(self, text: str) -> None:
        """Ignore it."""

    def questions(self, total: int, restored: int) -> None:
        """Ignore it."""

    def answered(self, *, failed: bool, calls: int) -> None:
        """Ignore it."""

    def judged(self, *, correct: bool) -> None:
        """Ignore it."""

    def note(self, text: str) -> None:
        """Keep it."""
        self.notes.append(text)


@dataclass
class Control:
    """The surroundings of one evaluation.

    Attributes:
        progress: who hears of it.
        stop: set once no further stage may begin; calls in flight are still waited for.
        hurry: set when they shall not be waited for either.
        tags: what else the run is known by in MLflow.
        budget: what may be spent; None without a limit.
        listen: lets Ctrl-C and SIGTERM set `stop` and `hurry`, also after somebody else has taken them.
    """

    progress: Progress = field(default_factory=Silence)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    tags: Mapping[str, str] = field(default_factory=dict)
    budget: Budget | None = None
    listen: Callable[[], None] = lambda: None


_control: ContextVar[Control | None] = ContextVar("control", default=None)


@contextmanager
def controlled_by(control: Control) -> Iterator[Control]:
    """Make `control` the surroundings of every flow run called inside of the block."""
    token = _control.set(control)
    try:
        yield control
    finally:
        _control.reset(token)


def current_control() -> Control:
    """Return the surroundings of the running flow; silent ones where nobody set any.

    Signals are taken back on the way: when a flow begins, Prefect lets SIGTERM kill it with a traceback.
    """
    control = _control.get() or Control()
    control.listen()
    return control

"""Messages between the pool and a worker: length-prefixed pickles of a job and its reply."""

import pickle
import struct
from typing import Any, Literal, NamedTuple

from tasks.database.location import Content, Location

HEADER = struct.Struct("!Q")
"""Length of the pickle that follows, in bytes."""


class Job(NamedTuple):
    """One call of a function inside a worker."""

    function: str  # "module:qualname" of a module-level function that takes a session first
    location: Location
    content: Content  # what it held when it was opened
    args: tuple[Any, ...]  # its further arguments
    budget_s: float  # seconds that all of its queries may take together


class WorkerReply(NamedTuple):
    """The outcome of a job, or, with `outcome` "ready", that the worker can take one."""

    outcome: Literal["ready", "returned", "raised", "exhausted"]  # exhausted: memory ran out
    value: Any = None  # what the function returned, or the exception that it raised
    traceback: str = ""  # of the exception, as text
    spent: bool = False  # whether the worker has stopped after it, because its memory ran out or stayed large


def framed(message: object) -> bytes:
    """Return a message as one frame."""
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(len(body)) + body

"""Errors that a user can correct, printed as one message without a traceback.

Every message states what was wrong, where (file, key, question id), and what to do about it.
The class determines the exit code of the command.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum
from functools import partial
from typing import Any


class CrosscheckError(Exception):
    """Error that a user can correct: bad input, bad configuration, or a failed request to a service.

    Attributes:
        exit_code: exit code of the command that ends with this error.
    """

    exit_code = 2


class ConfigurationError(CrosscheckError):
    """Invalid setting, name or file; raised before the first model call."""


class DataError(CrosscheckError):
    """Missing or invalid file of a benchmark."""


class DatabaseUnavailableError(CrosscheckError):
    """Database that cannot be read now: its file is gone or damaged, or its server does not answer.

    It says nothing about a SQL: the same question can succeed later.
    """

    exit_code = 3


class ExtensionError(CrosscheckError):
    """Exception in the code of a user: in a pipeline, stage, metric, layout or engine of their own."""


class StoreError(CrosscheckError):
    """Store that cannot be read or written; the run stops, because what it pays for would be paid again."""


class BackboneError(CrosscheckError):
    """Failed request to a backbone.

    Attributes:
        transient: whether a retry can succeed (rate limit, server error, timeout).
        fatal: whether all further requests will fail too (bad key, exhausted quota), so that the run stops.
        retried: whether the backbone has retried the request itself, so that a second retry is wrong.
    """

    exit_code = 3

    def __init__(self, message: str, *, transient: bool, fatal: bool = False, retried: bool = False) -> None:
        super().__init__(message)
        self.transient = transient
        self.fatal = fatal
        self.retried = retried

    def __reduce__(self) -> tuple[Any, ...]:
        # Prefect pickles exceptions of tasks; by default, pickle loses keyword arguments.
        rebuild = partial(BackboneError, transient=self.transient, fatal=self.fatal, retried=self.retried)
        return (rebuild, self.args)


def first_problem(error: Exception) -> str:
    """Return what is wrong in a few words: of a file, for example `Permission denied`, without number and path.

    Of data, it is the first thing that is wrong, after its key: `prices.input: Field required`.
    """
    from pydantic import ValidationError

    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 (byte {error.start} is {error.object[error.start]:#04x}): save it as UTF-8"
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    message = first["msg"].removeprefix("Value error, ")  # words of pydantic
    return f"{where}: {message}" if where else message


def similar_name(wrong: str, valid: Iterable[str]) -> str:
    """Return a sentence with the most similar valid name; "" if none is similar.

    >>> similar_name("seleciton", ["selection", "correction"]), similar_name("x", ["selection"])
    ('Did you mean "selection"?', '')
    """
    names = get_close_matches(wrong, sorted(valid), n=1, cutoff=0.6)
    return f'Did you mean "{names[0]}"?' if names else ""


def did_you_mean(wrong: str, valid: Iterable[str]) -> str:
    """Return a sentence with the most similar valid name, or with all names if none is similar."""
    names = sorted(valid)
    if hint := similar_name(wrong, names):
        return hint
    return f"Valid names: {', '.join(names)}." if names else "There are none."


class ExitCode(IntEnum):
    """How a command ended; an error that a user can correct has a code of its own, `CrosscheckError.exit_code`."""

    DONE = 0
    NEGATIVE = 1
    """It did what it should, and the outcome is negative: an SQL that does not run, a figure that differs."""
    BAD_INPUT = CrosscheckError.exit_code
    TRY_AGAIN = 3
    """Something is left undone that the same command can do."""
    INTERNAL_ERROR = 70
    INTERRUPTED = 130

"""Errors that a person can mend, printed as one message without a traceback.

Every message says what was wrong, where (file, key, question id), and what to do about it.
The command line turns the class into an exit code; nothing else may print a traceback to a user.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from functools import partial
from typing import Any


class CrosscheckError(Exception):
    """Something the user can mend: bad input, configuration, or a service that said no.

    Attributes:
        exit_code: what the command exits with when this reaches the top.
    """

    exit_code = 2


class ConfigurationError(CrosscheckError):
    """A setting, name or file is wrong; raised before the first paid call."""


class DataError(CrosscheckError):
    """A benchmark's file is missing, or says something it cannot mean."""


class StoreError(CrosscheckError):
    """What was paid for or computed before cannot be read where it is kept, so going on would pay for it again."""


class BackboneError(CrosscheckError):
    """The backbone gave no answer to one request.

    Attributes:
        transient: whether asking again later can help (rate limit, server error, time-out).
        fatal: whether no further request can succeed either (bad key, exhausted quota), so the run stops.
    """

    exit_code = 3

    def __init__(self, message: str, *, transient: bool, fatal: bool = False) -> None:
        super().__init__(message)
        self.transient = transient
        self.fatal = fatal

    def __reduce__(self) -> tuple[Any, ...]:
        # Prefect pickles what a task raised; an exception's own way forgets keyword arguments.
        return (partial(BackboneError, transient=self.transient, fatal=self.fatal), self.args)


def did_you_mean(wrong: str, valid: Iterable[str]) -> str:
    """Return a sentence naming the nearest valid name, or all of them when none is near.

    >>> did_you_mean("seleciton", ["selection", "correction"])
    'Did you mean "selection"?'
    """
    names = sorted(valid)
    near = get_close_matches(wrong, names, n=1, cutoff=0.6)
    if near:
        return f'Did you mean "{near[0]}"?'
    return f"Valid names: {', '.join(names)}." if names else "There are none."

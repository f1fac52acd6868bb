"""Exit codes of the commands."""

from enum import IntEnum

from tasks.core.errors import CrosscheckError


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

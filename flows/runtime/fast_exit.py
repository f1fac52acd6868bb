"""The end of a command's process, without Python's removal of its modules: a second, once MLflow is imported."""

import atexit
import os
import sys
from typing import NoReturn


class FastExit:
    """Ends the process as soon as its exit functions have run; made before anything that registers one.

    Python runs exit functions in the reverse order, after it has waited for threads; those that were registered before
    this are not run. What ends the process otherwise than by `with_code` ends it as always.
    """

    def __init__(self) -> None:
        self._code: int | None = None
        atexit.register(self._end)

    def with_code(self, code: int) -> NoReturn:
        """Exit with a code."""
        self._code = code
        sys.exit(code)

    def _end(self) -> None:
        if self._code is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):  # Python says so in its own way
            return
        os._exit(self._code)

"""The command line without a process of its own: the same code, a second faster, for commands without Prefect."""

import contextlib
import io
import os
from unittest import mock

from flows.cli import program
from tests.support.command_line import Ran


def run(*arguments: str) -> Ran:
    """Run a command to its end; the working folder is that of CROSSCHECK_HOME.

    What the command sets in the environment for itself and its server is forgotten.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = program.run(arguments)
    return Ran(code, out.getvalue(), err.getvalue())

"""The command line without a process of its own: the same code, a second faster, for commands without Prefect."""

import contextlib
import io
import os
from unittest import mock

import pytest

from flows.cli.program import main
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
        pytest.raises(SystemExit) as ended,
    ):
        main(arguments)
    code = ended.value.code
    return Ran(code if isinstance(code, int) else 0, out.getvalue(), err.getvalue())

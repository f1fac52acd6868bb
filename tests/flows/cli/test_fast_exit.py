"""The end of a command's process: as always, but without the removal of Python's modules."""

import os
import re
import subprocess
import sys

import pytest

BEGIN = (
    "import sys; from flows.runtime.process import FastExit; fast_exit = FastExit()\n"
    "class Late:\n"
    "    def __del__(self): print('removed', flush=True)\n"
    "late = Late()\n"
)


def ran(program: str) -> "subprocess.CompletedProcess[str]":
    """Run a program; its output is buffered, whatever the environment says."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", BEGIN + program]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_the_code_is_kept_and_all_output_is_written() -> None:
    ended = ran("print('x' * 100_000); print('err', end='', file=sys.stderr); fast_exit.with_code(3)")
    assert (ended.returncode, len(ended.stdout), ended.stderr) == (3, 100_001, "err")


def test_exit_functions_and_threads_come_first() -> None:
    ended = ran(
        "import atexit, threading, time\n"
        "atexit.register(print, 'exit function')\n"
        "threading.Thread(target=lambda: (time.sleep(0.3), print('thread'))).start()\n"
        "fast_exit.with_code(0)"
    )
    assert ended.stdout.split("\n") == ["thread", "exit function", ""]


def test_modules_are_removed_where_something_else_ends_the_process() -> None:
    assert ran("sys.exit(4)").stdout == "removed\n"
    failed = ran("raise RuntimeError('unexpected')")
    assert failed.returncode == 1
    assert "RuntimeError: unexpected" in failed.stderr


def test_output_that_cannot_be_written_is_said_as_python_says_it() -> None:
    program = "import os; os.close(1); os.open(os.devnull, os.O_RDONLY); print('x'); fast_exit.with_code(5)"
    assert ran(program).returncode == 120


def test_a_command_ends_so() -> None:
    program = "sys.argv = ['crosscheck', '--version']; from flows.cli.program import main; main()"
    ended = ran(program)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert re.fullmatch(r"crosscheck, version \S+\n", ended.stdout)


@pytest.mark.parametrize("closing", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_change_no_exit_code_and_no_other_output(closing: str) -> None:
    command = f"{sys.executable} -m crosscheck list {closing}"
    ended = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert bool(ended.stdout) == (closing in ("2>&-", "<&-"))
    failed = subprocess.run(f"{command} --nothing", shell=True, capture_output=True)
    assert failed.returncode == 2


def test_other_programs_inherit_the_streams_that_were_closed() -> None:
    program = (
        "import os, subprocess; from flows.runtime.process import open_closed_streams; open_closed_streams();"
        "subprocess.run(['sh', '-c', 'echo said >&2 && echo said'], check=True)"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.run(["sh", "-c", '"$@" >&- 2>&-', "sh", *command]).returncode == 0

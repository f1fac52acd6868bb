"""The process of a command: its fast end, its closed streams, and garbage collection, which is seldom in it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import ROOT

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


def test_the_code_is_kept_and_all_output_is_written_or_said_not_to_be() -> None:
    ended = ran("print('x' * 100_000); print('err', end='', file=sys.stderr); fast_exit.with_code(3)")
    assert (ended.returncode, len(ended.stdout), ended.stderr) == (3, 100_001, "err")
    program = "import os; os.close(1); os.open(os.devnull, os.O_RDONLY); print('x'); fast_exit.with_code(5)"
    assert ran(program).returncode == 120


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


@pytest.mark.parametrize("arguments", ["list", "help causes", "nights show", "--help", "query 'SELECT 1'"])
def test_a_reader_that_has_closed_the_pipe_changes_no_exit_code(arguments: str, tmp_path: Path) -> None:
    command = f"{sys.executable} -m crosscheck {arguments}"
    environment = os.environ | {"CROSSCHECK_HOME": str(tmp_path)}
    codes = [
        subprocess.run(line, shell=True, capture_output=True, text=True, env=environment).stderr.splitlines()[
            -1
        ]
        for line in (f"{command}; echo $? >&2", f"(sleep 0.2; {command}; echo $? >&2) | true")
    ]
    assert codes[0] == codes[1]


def test_a_current_folder_that_was_removed_is_named(tmp_path: Path) -> None:
    removed = tmp_path / "removed"
    removed.mkdir()
    score = f"{sys.executable} -m crosscheck score --predictions p.json --home {tmp_path}"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    environment.pop("CROSSCHECK_DATA", None)  # with it, the current folder is not asked for
    command = f"cd {removed} && rmdir {removed} && {score}"
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment)
    assert ended.returncode == 2
    assert "crosscheck: The current folder was removed. Change to another one" in ended.stderr


def test_words_that_cannot_be_written_end_no_command(tmp_path: Path) -> None:
    predictions = tmp_path / "p.txt"
    predictions.write_text("nothing", encoding="utf-8")
    score = f"-m crosscheck score --predictions {predictions} --limit 1 --home {tmp_path}"
    failed = subprocess.run(f"{sys.executable} {score} 2>/dev/full", shell=True, capture_output=True)
    assert failed.returncode == 2, "as with 2>&-: the file has too few lines"


def test_other_programs_inherit_the_streams_that_were_closed() -> None:
    program = (
        "import os, subprocess; from flows.runtime.process import open_closed_streams; open_closed_streams();"
        "subprocess.run(['sh', '-c', 'echo said >&2 && echo said'], check=True)"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.run(["sh", "-c", '"$@" >&- 2>&-', "sh", *command]).returncode == 0


IMPORTING = """
import gc
from flows.runtime.process import collect_garbage_seldom, importing

{first}
before = gc.isenabled(), gc.get_threshold()
try:
    with importing():
        print(gc.isenabled())
        {body}
except ImportError:
    print("not there")
assert (gc.isenabled(), gc.get_threshold()) == before
print(gc.get_freeze_count() > 1000)
class Circle:
    def __init__(self):
        self.itself = self
    def __del__(self):
        print("found")
Circle()
gc.collect()
"""


def printed(first: str, body: str = "pass") -> list[str]:
    return output(IMPORTING.format(first=first, body=body)).split("\n")[:-1]


def output(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def test_a_command_does_not_search_while_it_imports_nor_in_what_it_imported() -> None:
    assert printed("collect_garbage_seldom()") == ["False", "True", "found"]
    failed = printed("collect_garbage_seldom()", "import no_such_module")
    assert failed == ["False", "not there", "True", "found"], "the search is on again"
    assert printed("") == ["True", "False", "found"], "a user's program searches as always"


def test_a_process_that_ends_as_usual_prints_no_leaks_of_duckdb() -> None:
    script = (
        "from flows.runtime.process import collect_garbage_seldom, importing\n"
        "collect_garbage_seldom()\n"
        "with importing():\n"
        "    import duckdb\n"
        "duckdb.connect().execute('SELECT 1').fetchall()\n"
    )
    assert output(script) == ""

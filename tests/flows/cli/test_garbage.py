"""Garbage collection: seldom in a command, not while it imports, and as always in a user's program."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
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
    code = IMPORTING.format(first=first, body=body)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split("\n")[:-1]


def test_a_command_does_not_search_while_it_imports_nor_in_what_it_imported() -> None:
    assert printed("collect_garbage_seldom()") == ["False", "True", "found"]


def test_an_import_that_fails_leaves_the_search_on() -> None:
    found = printed("collect_garbage_seldom()", "import no_such_module")
    assert found == ["False", "not there", "True", "found"]


def test_a_users_program_searches_as_always() -> None:
    assert printed("") == ["True", "False", "found"]


@pytest.mark.slow
def test_mlflow_is_imported_without_a_search_in_a_command() -> None:
    code = (
        "import gc, threading\n"
        "from flows.runtime.process import collect_garbage_seldom\n"
        "from flows.runtime.process import import_in_background\n"
        "collect_garbage_seldom()\n"
        "before = sum(each['collections'] for each in gc.get_stats())\n"
        "import_in_background()\n"
        "[each.join() for each in threading.enumerate() if each.name == 'import mlflow']\n"
        "import sys\n"
        "print('mlflow.store.tracking.sqlalchemy_store' in sys.modules, gc.isenabled())\n"
        "print(sum(each['collections'] for each in gc.get_stats()) - before < 3, gc.get_freeze_count() > 100_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 4


def test_a_process_that_ends_as_usual_prints_no_leaks_of_duckdb() -> None:
    script = (
        "from flows.runtime.process import collect_garbage_seldom, importing\n"
        "collect_garbage_seldom()\n"
        "with importing():\n"
        "    import duckdb\n"
        "duckdb.connect().execute('SELECT 1').fetchall()\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("", "")

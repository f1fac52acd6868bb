"""The names of `from crosscheck import ...`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import crosscheck
from flows import api
from tests.support.command_line import ROOT


def python(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CROSSCHECK_HOME": str(folder / "home")}
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_starting_the_command_does_not_import_the_interface() -> None:
    program = (
        "from crosscheck import main; import sys; "  # as the installed script does; Python then looks up __path__
        "print(any(m.split('.')[0] in ('flows', 'tasks') for m in sys.modules))"
    )
    assert python(program, ROOT).stdout.strip() == "False"


def test_every_name_can_be_imported_has_a_docstring_and_is_listed() -> None:
    assert api.__all__ == sorted(api.__all__)
    assert set(dir(crosscheck)) == {"main", *api.__all__}
    for name in api.__all__:
        assert getattr(crosscheck, name) is getattr(api, name)
        assert getattr(crosscheck, name).__doc__, name


def test_a_star_import_has_the_names_and_an_unknown_name_is_an_error() -> None:
    names: dict[str, object] = {}
    exec("from crosscheck import *", names)
    assert set(api.__all__) <= set(names)
    with pytest.raises(ImportError, match="cannot import name 'no_such_name' from 'crosscheck'"):
        exec("from crosscheck import no_such_name")


def test_the_functions_use_the_working_folder_of_the_moment(tmp_path: Path) -> None:
    program = """
import os
from crosscheck import CrosscheckError, available, runs
print("demo" in str(available("benchmark")))
for folder in ("one", "two"):
    os.environ["CROSSCHECK_HOME"] = folder
    try:
        runs()
    except CrosscheckError as error:
        print(folder in str(error))
"""
    ran = python(program, tmp_path)
    assert ran.stdout.split() == ["True"] * 3, ran.stderr

"""The wheel and the source distribution, which run elsewhere, whatever lies around there; the names to import."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import crosscheck
from flows.api import interface as api
from tests.support.command_line import ROOT


def build(kind: str, source: Path, target: Path) -> Path:
    """Build a distribution in a process of its own, since the backend works in the current folder."""
    program = f"import sys; from setuptools import build_meta; print(build_meta.build_{kind}(sys.argv[1]))"
    ran = subprocess.run(
        [sys.executable, "-c", program, str(target)], cwd=source, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return target / ran.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is packaged: a build leaves folders behind."""
    folder = tmp_path_factory.mktemp("source") / "checkout"
    shutil.copytree(
        ROOT,
        folder,
        ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "*.egg-info", "tests", "deployments"),
    )
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", source, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which the wheel was unpacked, as an installer does it."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def files_of(folder: Path) -> set[str]:
    """Return the files of a folder and the folders below it, without compiled modules."""
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in files if "__pycache__" not in path.parts}


def test_the_wheel_has_the_modules_the_configuration_and_nothing_else(installed: Path) -> None:
    assert sorted(path.name for path in installed.iterdir()) == [
        "crosscheck.py", next(installed.glob("*.dist-info")).name, "flows", "tasks",
    ]  # fmt: skip
    for folder, packed in (
        (ROOT / "conf", installed / "tasks" / "conf"),
        (ROOT / "tasks", installed / "tasks"),
        (ROOT / "flows", installed / "flows"),
    ):
        assert files_of(folder) - files_of(packed) == set()


def test_the_source_distribution_has_what_the_wheel_is_built_from(source: Path, tmp_path: Path) -> None:
    with tarfile.open(build("sdist", source, tmp_path)) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"setup.py", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "crosscheck.py"}
    for top in ("conf", "flows", "tasks"):
        needed |= {f"{top}/{path}" for path in files_of(source / top)}
    assert needed - packed == set()


@pytest.mark.slow
def test_what_is_built_from_the_source_distribution_runs_the_first_command(
    source: Path, elsewhere: Path, tmp_path: Path
) -> None:
    unpacked, installed = tmp_path / "unpacked", tmp_path / "installed"
    with tarfile.open(build("sdist", source, tmp_path)) as archive:
        archive.extractall(unpacked, filter="data")
    (checkout,) = unpacked.iterdir()
    with zipfile.ZipFile(build("wheel", checkout, tmp_path)) as archive:
        archive.extractall(installed)
    ran = run(installed, elsewhere, "evaluate", "--limit", "2", "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["benchmark"], found["pipeline"], found["total"]) == ("demo", "rsl-sql", 2)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder whose own modules have the names of Crosscheck's packages."""
    (tmp_path / "tasks.py").write_text("raise SystemExit('tasks.py of the user')", encoding="utf-8")
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "__init__.py").write_text("raise SystemExit('flows of the user')", encoding="utf-8")
    return tmp_path


def run(installed: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command of the unpacked wheel as its console script does, with a user's folder on PYTHONPATH."""
    program = f"import sys; sys.path.append({str(installed)!r}); import crosscheck; crosscheck.main()"
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(cwd), "CROSSCHECK_HOME": str(cwd / "home")},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_the_wheel_works_elsewhere_beside_modules_with_the_names_of_its_packages(
    installed: Path, elsewhere: Path
) -> None:
    with sqlite3.connect(elsewhere / "shop.sqlite") as shop:
        shop.execute("CREATE TABLE customers (name TEXT)")
    ran = run(
        installed, elsewhere, "answer", "List the name of all customers.", "--database", "shop.sqlite",
        "--pipeline", "rsl-sql", "--demonstrations", "none", "--json",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["columns"] == ["name"]


def test_python_m_crosscheck_is_the_command(elsewhere: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "crosscheck", "--version"],
        cwd=elsewhere,
        env={**os.environ, "PYTHONPATH": f"{elsewhere}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout[:20]) == (0, "crosscheck, version "), ran.stderr


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

"""What the tests of commands that evaluate share."""

import shutil
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, built_demo: Path) -> Path:
    """A working folder with the demo that all tests of a module share, what they write there included."""
    folder = tmp_path_factory.mktemp("module") / "home"
    shutil.copytree(built_demo, folder)
    return folder


@pytest.fixture
def in_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have commands of this process work in that folder."""
    monkeypatch.setenv("CROSSCHECK_HOME", str(home))

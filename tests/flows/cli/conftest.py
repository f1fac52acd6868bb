"""What the tests of commands share."""

import shutil
from pathlib import Path

import pytest

from tasks.settings.home import Home


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The working folder of commands of this process; a command makes it."""
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


@pytest.fixture
def demo_home(home: Home, built_demo: Path) -> Home:
    """The same with the demo in it."""
    shutil.copytree(built_demo, home.path)
    return home

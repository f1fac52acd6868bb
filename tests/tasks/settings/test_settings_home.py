"""Where things are: options before environment before defaults, and errors that say what to do."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.core.errors import ConfigurationError
from tasks.settings.home import CHECKOUT, Home, find_conf, find_data, find_home, find_replies, find_stages
from tests.support.in_process import run


def test_the_home_is_the_option_else_the_environment_else_a_hidden_folder_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "named"))
    assert find_home(str(tmp_path / "option" / "deep")).path == tmp_path / "option" / "deep"
    assert find_home().path == tmp_path / "named"
    monkeypatch.delenv("CROSSCHECK_HOME")
    assert find_home().path == tmp_path / ".crosscheck"
    assert (tmp_path / ".crosscheck").is_dir()


def test_a_home_that_is_a_file_is_an_error_that_says_how_to_name_another(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = "file is a file, not a folder. Name another with --home or CROSSCHECK_HOME"
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        for make in (True, False):
            with pytest.raises(ConfigurationError, match=said):
                find_home(str(path), make=make)
    ran = run("runs", "--home", str(tmp_path / "file"))
    assert (ran.code, ran.out) == (2, "") and said in ran.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_home_that_cannot_be_written_to_is_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    with pytest.raises(ConfigurationError, match="cannot be written to"):
        find_home(str(folder))


def test_the_data_are_at_the_option_else_the_environment_else_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CROSSCHECK_DATA", str(tmp_path / "named"))
    assert find_data("~/x") == Path.home() / "x"
    assert find_data() == tmp_path / "named"
    monkeypatch.delenv("CROSSCHECK_DATA")
    assert find_data() == tmp_path / "data"


def test_the_configuration_is_the_checkouts_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CROSSCHECK_CONF", raising=False)
    monkeypatch.chdir(tmp_path)
    assert find_conf() == CHECKOUT / "conf"
    monkeypatch.setenv("CROSSCHECK_CONF", str(tmp_path))
    assert find_conf() == tmp_path
    monkeypatch.setenv("CROSSCHECK_CONF", str(tmp_path / "absent"))
    with pytest.raises(ConfigurationError, match="benchmarks/, backbones/, pipelines/ and prompts/"):
        find_conf()


@pytest.mark.parametrize(
    ("name", "find"),
    [
        ("CROSSCHECK_HOME", lambda: find_home(make=False)),
        ("CROSSCHECK_DATA", find_data),
        ("CROSSCHECK_CONF", find_conf),
        ("CROSSCHECK_REPLIES", lambda: find_replies(Home(Path()))),
        ("CROSSCHECK_STAGES", lambda: find_stages()),
    ],
)
def test_a_path_that_is_not_utf8_is_an_error(
    name: str, find: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    with pytest.raises(ConfigurationError, match="bytes that are not UTF-8"):
        find()

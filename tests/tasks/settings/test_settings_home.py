"""Where things and shared stores are: options before environment before defaults, and errors that say what to do."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.core.errors import ConfigurationError
from tasks.settings.home import CHECKOUT, Home, find_conf, find_data, find_home, find_replies, find_stages
from tests.support.in_process import run


def test_the_home_is_where_named_else_hidden_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_data_are_where_named_else_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CROSSCHECK_DATA", str(tmp_path / "named"))
    assert find_data("~/x") == Path.home() / "x"
    assert find_data() == tmp_path / "named"
    monkeypatch.delenv("CROSSCHECK_DATA")
    assert find_data() == tmp_path / "data"


def test_the_configuration_is_the_checkouts_or_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CROSSCHECK_CONF", raising=False)
    monkeypatch.chdir(tmp_path)
    assert find_conf() == CHECKOUT / "conf"
    monkeypatch.setenv("CROSSCHECK_CONF", str(tmp_path))
    assert find_conf() == tmp_path
    monkeypatch.setenv("CROSSCHECK_CONF", str(tmp_path / "absent"))
    with pytest.raises(ConfigurationError, match="benchmarks/, backbones/, pipelines/ and prompts/"):
        find_conf()


@pytest.mark.parametrize(("name", "find"), [
    ("CROSSCHECK_HOME", lambda: find_home(make=False)),
    ("CROSSCHECK_DATA", find_data),
    ("CROSSCHECK_CONF", find_conf),
    ("CROSSCHECK_REPLIES", lambda: find_replies(Home(Path()))),
    ("CROSSCHECK_STAGES", lambda: find_stages()),
])  # fmt: skip
def test_a_path_that_is_not_utf8_is_an_error(
    name: str, find: Callable[[], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    with pytest.raises(ConfigurationError, match="bytes that are not UTF-8"):
        find()


@pytest.mark.parametrize("value", [None, ""])
def test_stores_are_in_the_working_folder_by_default(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    for name in ("CROSSCHECK_REPLIES", "CROSSCHECK_STAGES"):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert find_replies(Home(Path("home"))) == Home(Path("home")).replies
    assert find_stages() == ""


@pytest.mark.parametrize(("value", "place"), [
    ("postgresql://me@host/db", "postgresql://me@host/db"),
    ("postgres://host/db", "postgres://host/db"),
    ("postgresql+psycopg://h/d", "postgresql+psycopg://h/d"),
    ("shared/replies.sqlite", Path.cwd() / "shared" / "replies.sqlite"),
])  # fmt: skip
def test_replies_may_be_in_another_file_or_in_postgresql(
    monkeypatch: pytest.MonkeyPatch, value: str, place: str | Path
) -> None:
    monkeypatch.setenv("CROSSCHECK_REPLIES", value)
    assert find_replies(Home(Path("home"))) == place


def test_another_kind_of_database_is_refused_without_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSCHECK_REPLIES", "mysql://me:s3cret@host/db")
    with pytest.raises(ConfigurationError, match=r"mysql://.*postgresql://user@host/database") as caught:
        find_replies(Home(Path("home")))
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(("value", "place"), [
    ("s3://bucket/stages/", "s3://bucket/stages"),
    ("memory://stages", "memory://stages"),
    ("./shared/stages", Path("shared/stages")),
    ("/mnt/stages", Path("/mnt/stages")),
    ("file:///mnt/with%20space", Path("/mnt/with space")),
    ("stages", Path("stages")),
    ("~/stages", Path.home() / "stages"),
])  # fmt: skip
def test_stage_results_may_be_in_a_folder_or_at_a_url(
    monkeypatch: pytest.MonkeyPatch, value: str, place: str | Path
) -> None:
    monkeypatch.setenv("CROSSCHECK_STAGES", value)
    assert find_stages() == str(Path.cwd() / place if isinstance(place, Path) else place)


@pytest.mark.parametrize("name", ["warehouse.duckdb", "mlflow.db", "in-use.lock", "prefect/prefect.db"])
def test_a_pipe_in_the_place_of_a_store_is_refused_and_no_writer_of_it_waited_for(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "prefect").mkdir()
    (tmp_path / "verdicts.sqlite").symlink_to(tmp_path / "nowhere")
    assert find_home(str(tmp_path)).path == tmp_path
    os.mkfifo(tmp_path / name)
    with pytest.raises(ConfigurationError, match=f"{name}: it is a device or a pipe, not a file"):
        find_home(str(tmp_path))

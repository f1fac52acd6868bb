"""Where the shared stores are: paths and addresses told apart, and nothing secret repeated."""

from pathlib import Path

import pytest

from tasks.core.errors import ConfigurationError
from tasks.settings.home import Home, find_replies, find_stages


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(tmp_path)
    return Home(tmp_path / "home")


@pytest.mark.parametrize("value", [None, ""])
def test_both_are_in_the_working_folder_unless_named(
    home: Home, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    for name in ("CROSSCHECK_REPLIES", "CROSSCHECK_STAGES"):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert find_replies(home) == home.replies
    assert find_stages() == ""


@pytest.mark.parametrize(
    "value", ["postgresql://me@host/db", "postgres://host/db", "postgresql+psycopg://h/d"]
)
def test_replies_may_be_in_postgresql(home: Home, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CROSSCHECK_REPLIES", value)
    assert find_replies(home) == value


def test_replies_may_be_in_another_file(home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CROSSCHECK_REPLIES", "shared/replies.sqlite")
    assert find_replies(home) == tmp_path / "shared" / "replies.sqlite"


def test_another_kind_of_database_is_refused_without_repeating_its_address(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_REPLIES", "mysql://me:s3cret@host/db")
    with pytest.raises(ConfigurationError, match=r"mysql://.*postgresql://user@host/database") as caught:
        find_replies(home)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("s3://bucket/stages/", "s3://bucket/stages"),
        ("memory://stages", "memory://stages"),
        ("./shared/stages", Path("shared/stages")),
        ("/mnt/stages", Path("/mnt/stages")),
        ("file:///mnt/with%20space", Path("/mnt/with space")),
        ("stages", Path("stages")),
        ("~/stages", Path.home() / "stages"),
    ],
)
def test_stage_results_may_be_in_a_folder_or_at_a_url(
    home: Home, monkeypatch: pytest.MonkeyPatch, value: str, place: str | Path
) -> None:
    monkeypatch.setenv("CROSSCHECK_STAGES", value)
    assert find_stages() == str(Path.cwd() / place if isinstance(place, Path) else place)

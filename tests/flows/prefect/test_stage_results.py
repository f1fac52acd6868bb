"""Results in files that machines share, written by whatever process."""

from pathlib import Path

import pytest

from flows.prefect.stage_results import open_results
from tasks.core.errors import ConfigurationError
from tasks.settings.home import Home

RESULT = {"value": {"tables": ["museum"], "note": "Überblick"}, "calls": [], "made_by": "run/7"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the results."""
    monkeypatch.setenv("CROSSCHECK_STAGES", str(tmp_path / "stages"))
    return tmp_path / "stages"


async def test_what_one_process_wrote_another_reads(folder: Path, tmp_path: Path) -> None:
    await open_results(Home(tmp_path)).write("forward_link/abc", RESULT)
    results = open_results(Home(tmp_path))
    assert await results.read("forward_link/abc") == RESULT
    assert await results.read("forward_link/absent") is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"result": "{"}', b"\xff", b"[]"])
async def test_a_record_that_cannot_be_read_counts_as_missing(
    folder: Path, tmp_path: Path, content: bytes
) -> None:
    results = open_results(Home(tmp_path))
    (folder / "forward_link").mkdir()
    (folder / "forward_link" / "abc").write_bytes(content)
    assert await results.read("forward_link/abc") is None
    await results.write("forward_link/abc", RESULT)
    assert await open_results(Home(tmp_path)).read("forward_link/abc") == RESULT


async def test_a_folder_that_cannot_be_made_is_said(folder: Path, tmp_path: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(ConfigurationError, match="cannot be kept in") as caught:
        open_results(Home(tmp_path))
    assert "CROSSCHECK_STAGES" in str(caught.value)

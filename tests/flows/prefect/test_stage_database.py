"""Stage results in a SQLite file that two use at once, and in files that machines share."""

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from flows.prefect import stage_results
from flows.prefect.stage_results import StageDatabase, open_results
from tasks.core.errors import ConfigurationError, StoreError
from tasks.settings.home import Home


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stages.sqlite"


@pytest.fixture
async def two(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[StageDatabase, StageDatabase]]:
    """The same file, open twice; what is in it beyond the first page is garbage."""
    monkeypatch.setattr(stage_results, "BUSY_TIMEOUT_S", 0.1)
    with closing(StageDatabase(path)) as first:
        for number in range(60):
            await first.write(f"s/{number}", {"value": "x" * 400})
    with closing(StageDatabase(path)) as one, closing(StageDatabase(path)) as other:
        content = bytearray(path.read_bytes())
        content[4096:] = random.Random(1).randbytes(len(content) - 4096)
        path.write_bytes(content)
        yield one, other


async def test_damage_that_two_meet_renews_the_file_once(
    two: tuple[StageDatabase, StageDatabase], path: Path
) -> None:
    one, other = two
    assert await one.read("s/1") is None
    await one.write("new/1", {"value": 1})
    assert await other.read("s/1") is None
    await one.write("new/2", {"value": 2})
    await other.write("new/3", {"value": 3})
    for each in two:
        assert [await each.read(f"new/{number}") for number in (1, 2, 3)] == [
            {"value": 1}, {"value": 2}, {"value": 3}
        ]  # fmt: skip
    assert len(list(path.parent.glob("stages.sqlite.damaged-*"))) == 1


async def test_a_new_file_that_cannot_be_written_either_is_one_message(
    two: tuple[StageDatabase, StageDatabase], path: Path
) -> None:
    one, other = two
    assert await one.read("s/1") is None
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError, match="cannot be used: database is locked"):
            await other.write("s/1", {"value": 1})
        assert await other.read("s/2") is None
    await other.write("s/1", {"value": 1})
    assert await one.read("s/1") == {"value": 1}


async def test_a_damaged_file_that_cannot_be_renamed_is_one_message(
    two: tuple[StageDatabase, StageDatabase], path: Path
) -> None:
    path.parent.rename(moved := path.parent.with_name("moved"))
    with pytest.raises(StoreError, match=r"cannot be used: .*No such file"):
        await two[0].write("s/1", {"value": 1})
    moved.rename(path.parent)


@pytest.mark.parametrize("column", ["used", "content"])
async def test_a_row_with_values_of_another_type_counts_as_missing(path: Path, column: str) -> None:
    with closing(StageDatabase(path)) as results:
        await results.write("s/1", {"value": 1})
        with closing(sqlite3.connect(path)) as other, other:
            other.execute(f"UPDATE entry SET {column} = x'80049500'")
        assert await results.read("s/1") is None


RESULT = {"value": {"tables": ["museum"], "note": "Überblick"}, "calls": [], "made_by": "run/7"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the results."""
    monkeypatch.setenv("CROSSCHECK_STAGES", str(tmp_path / "stages"))
    return tmp_path / "stages"


@pytest.mark.parametrize("content", [b"", b"{", b'{"result": "{"}', b"\xff", b"[]"])
async def test_a_record_that_cannot_be_read_counts_as_missing(
    folder: Path, tmp_path: Path, content: bytes
) -> None:
    results = open_results(Home(tmp_path))
    (folder / "forward_link").mkdir()
    (folder / "forward_link" / "abc").write_bytes(content)
    assert await results.read("forward_link/abc") is None
    await results.write("forward_link/abc", RESULT)
    another = open_results(Home(tmp_path))
    assert await another.read("forward_link/abc") == RESULT
    assert await another.read("forward_link/absent") is None


async def test_a_folder_that_cannot_be_made_is_said(folder: Path, tmp_path: Path) -> None:
    folder.write_text("a file")
    with pytest.raises(ConfigurationError, match="cannot be kept in") as caught:
        open_results(Home(tmp_path))
    assert "CROSSCHECK_STAGES" in str(caught.value)

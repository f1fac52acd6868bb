"""Stage results in a SQLite file that two use at once: damaged while it is open, or locked when it is begun anew."""

import random
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from flows.orchestration.stage_database import StageDatabase


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stages.sqlite"


@pytest.fixture
async def two(path: Path) -> AsyncIterator[tuple[StageDatabase, StageDatabase]]:
    """The same file, open twice; what is in it beyond the first page is garbage."""
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

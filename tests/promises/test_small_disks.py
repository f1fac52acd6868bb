"""Disks that are small, fill in mid-run or vanish: no answered request is bought twice, and what to do is said."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.flows.conftest import backbone_file, model
from tests.support.command_line import CommandLine, finish, served
from tests.support.disk import Disk, mounted
from tests.support.fake_openai import FakeOpenAI

__all__ = ["backbone_file", "model"]

TOO_SMALL = (256, 2048, 3600, 8800, 9600, 10240, 10900, 11600, 14000, 20000)
"""Kilobytes of disks on which no run may begin."""
FILLED = [(after, left) for after in (1, 3, 8, 14, 20) for left in (0, 40, 700, 1100)]
"""Requests after which a disk fills, and kilobytes that it then has left."""
OWN_SERVER = [(1, 0), (8, 700), (14, 0), (20, 1100)]
"""The same where Prefect's server and its database are in the working folder."""
IN_FLIGHT = 8
QUESTIONS = 24
REPLY_KB = 100
"""Size of a reply: so few fit on what is left of a disk that the run cannot end there by chance."""


def arguments(backbone_file: str) -> tuple[str, ...]:
    return ("evaluate", "--backbone", backbone_file, "--limit", str(QUESTIONS), "--pipeline", "zero-shot")


@pytest.mark.parametrize("size", TOO_SMALL)
def test_no_run_begins_without_room(
    tmp_path: Path, prefect_server: str, backbone_file: str, model: FakeOpenAI, size: int
) -> None:
    with mounted(tmp_path / "small", size) as disk:
        ran = served(disk.folder, prefect_server).run(*arguments(backbone_file))
    assert (ran.code, model.requests) == (3, [])
    assert len(ran.err.strip().splitlines()) == 1 and str(disk.folder) in ran.err, ran.err
    assert "24 MB free" in ran.err and "the same command continues" in ran.err


@pytest.fixture
def long_replies(model: FakeOpenAI) -> FakeOpenAI:
    answer = model.answer
    model.answer = lambda body: answer(body) + " " * REPLY_KB * 1024
    model.latency = 0.2
    return model


@pytest.mark.parametrize(("after", "left"), FILLED)
def test_nothing_is_bought_twice_when_a_disk_fills(
    tmp_path: Path,
    built_demo: Path,
    prefect_server: str,
    backbone_file: str,
    long_replies: FakeOpenAI,
    after: int,
    left: int,
) -> None:
    with mounted(tmp_path / "disk", 65536) as disk:
        home = disk.folder / "home"
        shutil.copytree(built_demo, home)
        fills(served(home, prefect_server), disk, backbone_file, long_replies, after, left)


@pytest.mark.parametrize(("after", "left"), OWN_SERVER)
def test_nor_where_the_database_of_prefect_is_on_that_disk(
    tmp_path: Path, built_demo: Path, backbone_file: str, long_replies: FakeOpenAI, after: int, left: int
) -> None:
    with mounted(tmp_path / "disk", 65536) as disk:
        home = disk.folder / "home"
        shutil.copytree(built_demo, home)
        fills(CommandLine(home), disk, backbone_file, long_replies, after, left)


def fills(
    line: CommandLine, disk: Disk, backbone_file: str, model: FakeOpenAI, after: int, left: int
) -> None:
    """Fill a disk in the middle of a run, make room, and continue."""
    process = line.start(*arguments(backbone_file))
    model.wait_for(after)
    with disk.full(leaving=left * 1024):
        free = IN_FLIGHT - model.in_flight
        before = len(model.requests)
        ran = finish(process)
        sent = len(model.requests)
    said = [
        text for text in (ran.err + ran.out).splitlines() if text.startswith(("crosscheck: ", "✗ stopped"))
    ]
    assert ran.code == 3, ran.err + ran.out
    assert len(said) == 1 and "the same command continues" in said[0] and str(disk.folder) in said[0], ran.err
    assert "24 MB free" in said[0] and "Traceback" not in ran.err and "internal error" not in ran.err
    # At most those that could be in flight when the disk was full, and one for each reply that still fitted.
    assert sent <= before + free + left // REPLY_KB
    assert line.run(*arguments(backbone_file)).code == 0
    bought = Counter(str(received.body["messages"]) for received in model.requests)
    assert len(bought) == QUESTIONS
    assert [text[-80:] for text, times in bought.items() if times > 1] == []


def test_a_working_folder_that_vanishes_is_said(
    crosscheck: CommandLine, built_demo: Path, backbone_file: str, model: FakeOpenAI
) -> None:
    shutil.copytree(built_demo, crosscheck.home, dirs_exist_ok=True)
    model.latency = 0.3
    process = crosscheck.start(*arguments(backbone_file))
    model.wait_for(9)
    shutil.rmtree(crosscheck.home, ignore_errors=True)
    sent = len(model.requests)
    ran = finish(process)
    assert ran.code == 3, ran.err + ran.out
    assert f"{crosscheck.home} was removed" in ran.err and "Traceback" not in ran.err
    assert len(model.requests) <= sent + IN_FLIGHT

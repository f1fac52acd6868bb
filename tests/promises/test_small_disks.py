"""Disks that are small, fill in mid-run or vanish: no answered request is bought twice, and what to do is said."""

import os
import shutil
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support import in_process
from tests.support.command_line import PIPES, CommandLine, Ran, finish, served, start_module
from tests.support.disk import Disk, ext4, mounted
from tests.support.fake_openai import FakeOpenAI

pytestmark = pytest.mark.slow

TOO_SMALL = (256, 20000)
"""Kilobytes of disks on which no run may begin."""
FILLED = [(1, 0), (8, 40), (20, 700)]
"""Requests after which a disk fills, and kilobytes that it then has left."""
OWN_SERVER = (14, 700)
"""The same where Prefect's server and its database are in the working folder."""
IN_FLIGHT = 8
QUESTIONS = 24
REPLY_KB = 100
"""Size of a reply: so few fit on what is left of a disk that the run cannot end there by chance."""


def arguments(backbone_file: str) -> tuple[str, ...]:
    return ("evaluate", "--backbone", backbone_file, "--limit", str(QUESTIONS), "--pipeline", "zero-shot")


def bought_from(model: FakeOpenAI) -> Counter[str]:
    """How often each request was sent."""
    return Counter(str(received.body["messages"]) for received in model.requests)


def messages(ran: Ran) -> list[str]:
    return [text for text in ran.err.splitlines() if text.startswith("crosscheck: ")]


@pytest.fixture
def disk(tmp_path: Path, built_demo: Path) -> Iterator[Disk]:
    """A disk of 64 MB with a working folder, in which the demo is built."""
    with mounted(tmp_path / "disk", 65536) as disk:
        shutil.copytree(built_demo, disk.folder / "home")
        yield disk


@pytest.mark.parametrize("size", TOO_SMALL)
def test_no_run_begins_without_room(
    tmp_path: Path, prefect_server: str, backbone_file: str, model: FakeOpenAI, size: int
) -> None:
    with mounted(tmp_path / "small", size) as disk:
        ran = served(disk.folder, prefect_server).run(*arguments(backbone_file))
    assert (ran.code, model.requests) == (3, [])
    progress, message = ran.err.strip().splitlines()
    assert progress.startswith("Evaluating ") and str(disk.folder) in message, ran.err
    assert "24 MB free" in ran.err and "run the same command again to continue" in ran.err


@pytest.fixture
def long_replies(model: FakeOpenAI) -> FakeOpenAI:
    answer = model.answer
    model.answer = lambda body: answer(body) + " " * REPLY_KB * 1024
    model.latency = 0.2
    return model


@pytest.mark.parametrize(("after", "left"), FILLED)
def test_nothing_is_bought_twice_when_a_disk_fills(
    disk: Disk, prefect_server: str, backbone_file: str, long_replies: FakeOpenAI, after: int, left: int
) -> None:
    fills(served(disk.folder / "home", prefect_server), disk, backbone_file, long_replies, after, left)


def test_nor_where_the_database_of_prefect_is_on_that_disk(
    disk: Disk, backbone_file: str, long_replies: FakeOpenAI
) -> None:
    fills(CommandLine(disk.folder / "home"), disk, backbone_file, long_replies, *OWN_SERVER)


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
    beginnings = ("crosscheck: ", "✗ The run ended early")
    lines = [text for text in (ran.err + ran.out).splitlines() if text.startswith(beginnings)]
    (said,) = [text for text in lines if "24 MB free" in text]  # beside warnings, which begin alike
    assert ran.code == 3, ran.err + ran.out
    for words in ("run the same command again to continue", str(disk.folder)):
        assert words in said, ran.err
    assert "Traceback" not in ran.err and "internal error" not in ran.err
    # At most those that could be in flight when the disk was full, and one for each reply that still fitted.
    assert sent <= before + free + left // REPLY_KB
    assert line.run(*arguments(backbone_file)).code == 0
    bought = bought_from(model)
    assert len(bought) == QUESTIONS
    assert [text[-80:] for text, times in bought.items() if times > 1] == []


def test_a_disk_that_turns_read_only_ends_the_run_and_what_is_lost_is_said(
    tmp_path: Path, built_demo: Path, backbone_file: str, model: FakeOpenAI
) -> None:
    """The database of Prefect's server is on that disk as well."""
    model.latency = 0.5
    with ext4(tmp_path / "disk", 96) as disk:
        home = disk.folder / "home"
        shutil.copytree(built_demo, home)
        line = CommandLine(home)
        process = line.start(*arguments(backbone_file))
        model.wait_for(14)
        process.send_signal(signal.SIGSTOP)
        disk.abort()
        before = len(model.requests)
        process.send_signal(signal.SIGCONT)
        ran = finish(process)
        sent = len(model.requests)
        disk.repair()
        assert ran.code == 3 and "Traceback" not in ran.err and "internal error" not in ran.err, ran.err
        said = messages(ran)
        assert "Read-only file system" in said[-1] and "run the same command again to continue" in said[-1]
        assert sent <= before + IN_FLIGHT
        assert line.run(*arguments(backbone_file)).code == 0
    bought = bought_from(model)
    twice = sum(times > 1 for times in bought.values())
    assert len(bought) == QUESTIONS and max(bought.values()) <= 2 and twice <= IN_FLIGHT
    noun = "request" if twice == 1 else "requests"
    assert (f"The replies to {twice} paid {noun} could not be stored" in said[0]) == (twice > 0), said


def test_a_folder_that_may_not_be_written_any_more_ends_the_run(
    tmp_path: Path, built_demo: Path, prefect_server: str, backbone_file: str, model: FakeOpenAI
) -> None:
    model.latency = 0.2
    home = tmp_path / "home"
    shutil.copytree(built_demo, home)
    line = served(home, prefect_server)
    assert line.run("evaluate", "--limit", "1").code == 0  # so that MLflow's database is there
    # Root may write everything, unless it gives up that right.
    given_up = ("setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override")
    without = given_up if os.geteuid() == 0 else ()
    if without and not shutil.which("setpriv"):
        pytest.skip("root cannot give up its right to write everything here")
    command = [*without, *line.command(*arguments(backbone_file))]
    process = subprocess.Popen(command, cwd=line.cwd, env=line.all_of_environment, **PIPES)
    model.wait_for(3)
    folders = [home, *(path for path in home.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    ran = finish(process)
    for folder in folders:
        folder.chmod(0o755)
    assert ran.code == 3 and "Traceback" not in ran.err, ran.err
    said = messages(ran)
    assert len(said) == 1 and str(home) in said[0] and "Permission denied" in said[0], ran.err
    assert line.run(*arguments(backbone_file)).code == 0
    bought = bought_from(model)
    assert len(bought) == QUESTIONS == len(model.requests)


def test_no_command_ends_with_an_internal_error_on_a_full_disk(
    disk: Disk,
    tmp_path: Path,
    prefect_server: str,
    backbone_file: str,
    model: FakeOpenAI,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backbone = ("--backbone", backbone_file, "--pipeline", "zero-shot")
    database, predictions = str(tmp_path / "a.sqlite"), tmp_path / "p.csv"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE a (b)")
    predictions.write_text("question_id,sql\n1,SELECT 1\n", encoding="utf-8")
    need_room = (
        ("score", "--predictions", str(predictions)), ("answer", "How many?", "--database", database, *backbone),
        ("judge", "latest", "--backbone", backbone_file), ("benchmarks", "prepare", "--backbone", backbone_file),
        ("up",),
        ("sweep", "--backbones", backbone_file, "--pipelines", "zero-shot", "--limit", "9"),
    )  # fmt: skip
    others = (
        ("rerun", "latest"), ("runs",), ("show", "latest"), ("status",), ("show", "latest", "--html"),
        ("query", "SELECT count(*) FROM runs"), ("clean", "--replies", "damaged", "--yes"),
        ("nights", "baseline", "latest", "--reason", "it is good"), ("leaderboard",), ("nights", "show"),
        ("export", "tables"),
        ("export", "latest", "--submission", "s.json"), ("compare", "latest", "latest"),
        ("clean", "--keep", "1d", "--yes"), ("clean", "--rows", "--yes"),
    )  # fmt: skip
    home = disk.folder / "home"
    line = served(home, prefect_server)
    assert line.run("evaluate", "--limit", "8", *backbone).code == 0
    paid = len(model.requests)
    monkeypatch.chdir(disk.folder)
    for name, value in {**line.environment, "CROSSCHECK_HOME": str(home)}.items():
        monkeypatch.setenv(name, value)
    with disk.full():
        for command in need_room:
            ran = in_process.run(*command)
            (said,) = messages(ran)
            assert ran.code == 3 and "Traceback" not in ran.err, ran.err
            assert str(home) in said and "24 MB free" in said, ran.err
        for command in others:
            ran = in_process.run(*command)
            assert ran.code in (0, 2, 3) and "Traceback" not in ran.err, f"{command}: {ran.code} {ran.err}"
            assert ran.code == 0 or "crosscheck: " in ran.err or ran.out, f"{command}: {ran.err}"
    assert len(model.requests) == paid


def test_a_night_on_a_disk_that_fills_fails_with_one_message(
    disk: Disk, prefect_server: str, backbone_file: str, long_replies: FakeOpenAI
) -> None:
    line = served(disk.folder / "home", prefect_server)
    night = (
        "tests.support.night_process",
        (backbone_file, str(QUESTIONS), "zero-shot"),
        line.all_of_environment,
    )
    process = start_module(*night)
    long_replies.wait_for(8)
    with disk.full():
        ran = finish(process)
    assert "FAILED " in ran.err and "No space left on device" in ran.err, ran.out + ran.err
    assert "Traceback" not in ran.out + ran.err
    again = finish(start_module(*night))
    assert "COMPLETED " in again.err, again.out + again.err
    bought = bought_from(long_replies)
    assert len(bought) == QUESTIONS == len(long_replies.requests)


def test_a_working_folder_that_vanishes_is_said(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    model.latency = 0.3
    process = demo.start(*arguments(backbone_file))
    model.wait_for(9)
    removed = demo.home.rename(demo.home.with_name("removed"))  # at once: no file is added meanwhile
    shutil.rmtree(removed, ignore_errors=True)
    sent = len(model.requests)
    ran = finish(process)
    assert ran.code == 3, ran.err + ran.out
    assert f"{demo.home} was removed" in ran.err and "Traceback" not in ran.err
    assert len(model.requests) <= sent + IN_FLIGHT

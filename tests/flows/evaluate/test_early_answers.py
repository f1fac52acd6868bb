"""Evaluations that answer questions while Prefect's server starts; their flow runs show every call all the same."""

import shutil
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.flows.prefect.test_own_server import own_servers
from tests.support.command_line import CommandLine, Ran, finish, read_until, wait_until
from tests.support.demo import write_backbone
from tests.support.fake_openai import Behaviour, FakeOpenAI
from tests.support.process_template import Forked

pytestmark = pytest.mark.slow

QUESTIONS = 12


@pytest.fixture
def words(tmp_path: Path, fake_openai: FakeOpenAI) -> tuple[str, ...]:
    """The words of an evaluation with two calls in flight."""
    fake_openai.answer = lambda body: '{"sql": "SELECT 1"}'
    backbone = write_backbone(tmp_path / "fake.yaml", fake_openai, concurrency=2)
    few = ("--pipeline", "zero-shot", "--limit", str(QUESTIONS))
    return ("evaluate", "--backbone", backbone, *few, "--json")


@pytest.fixture
def own(tmp_path: Path, built_demo: Path) -> CommandLine:
    """The command line on a working folder without a server that runs already."""
    shutil.copytree(built_demo, tmp_path / "home")
    return CommandLine(tmp_path / "home")


def started_and_stopped(own: CommandLine, words: tuple[str, ...]) -> tuple[Forked, psutil.Process]:
    """Start an evaluation, and suspend its server before it answers."""
    process = own.start(*words)
    assert isinstance(process, Forked)
    wait_until(lambda: bool(own_servers(process.pid)), timeout=60)
    (server,) = own_servers(process.pid)
    server.send_signal(signal.SIGSTOP)
    return process, server


def interrupted(process: Forked, server: psutil.Process) -> Ran:
    """Interrupt an evaluation, and end its server once it is asked to end, which a suspended one does not hear."""
    process.send_signal(signal.SIGINT)
    pipe = (Path(f"/proc/{server.pid}/fd") / "0").readlink()

    def asked_to_end() -> bool:
        with suppress(FileNotFoundError):
            return pipe not in [each.readlink() for each in Path(f"/proc/{process.pid}/fd").iterdir()]
        return process.poll() is not None

    wait_until(asked_to_end, timeout=60)
    server.kill()
    return finish(process, timeout=60)


def test_all_questions_are_answered_while_the_server_starts_and_prefect_shows_every_task_run(
    own: CommandLine, words: tuple[str, ...], fake_openai: FakeOpenAI
) -> None:
    process, server = started_and_stopped(own, words)
    wait_until(lambda: len(fake_openai.requests) == QUESTIONS, timeout=60)
    read_until(process, "Waiting for Prefect's server")
    server.send_signal(signal.SIGCONT)
    ran = finish(process)
    assert ran.code == 0, ran.err
    assert (ran.json["questions"], ran.json["cost"]["calls"]) == (QUESTIONS, QUESTIONS)
    # the restoring of results, and one task run with all calls of the stage
    assert ran.json["prefect"] == {"task_runs": 2, "recorded": 2}


def assert_the_rest_is_bought(own: CommandLine, words: tuple[str, ...], server: FakeOpenAI) -> None:
    """Assert that the same command ends well and buys no reply twice."""
    server.always(None)
    again = own.run(*words)
    assert again.code == 0, again.err
    assert len(server.requests) == QUESTIONS


def test_a_server_that_does_not_start_loses_no_reply(
    own: CommandLine, words: tuple[str, ...], fake_openai: FakeOpenAI
) -> None:
    process, server = started_and_stopped(own, words)
    wait_until(lambda: len(fake_openai.requests) >= 3, timeout=60)
    server.kill()
    finish(process).assert_refused("Prefect's server did not start", "Every reply that came is kept")
    assert_the_rest_is_bought(own, words, fake_openai)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds the server's standard input in /proc")
def test_an_interrupt_before_the_server_answers_waits_for_the_calls_in_flight_and_keeps_what_came(
    own: CommandLine, words: tuple[str, ...], fake_openai: FakeOpenAI
) -> None:
    fake_openai.script(Behaviour(), Behaviour())
    fake_openai.always(Behaviour(delay=3.0))
    process, server = started_and_stopped(own, words)
    wait_until(lambda: len(fake_openai.requests) == 4, timeout=60)
    ran = interrupted(process, server)
    assert ran.code == 130 and "run the same command again to continue" in ran.err, ran.err
    assert "given up" not in ran.err, ran.err
    assert len(fake_openai.requests) == 4, "the request that waited for a place was not sent any more"
    assert_the_rest_is_bought(own, words, fake_openai)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds the server's standard input in /proc")
def test_a_second_interrupt_before_the_server_answers_says_what_was_given_up(
    own: CommandLine, words: tuple[str, ...], fake_openai: FakeOpenAI
) -> None:
    fake_openai.always(Behaviour(delay=30.0))
    process, server = started_and_stopped(own, words)
    wait_until(lambda: len(fake_openai.requests) == 2, timeout=60)
    process.send_signal(signal.SIGINT)
    read_until(process, "Stopping")
    ran = interrupted(process, server)
    assert ran.code == 130 and "2 calls in flight were given up" in ran.err, ran.err

"""Evaluations that answer questions while Prefect's server starts; their flow runs show every call all the same."""

import shutil
import signal
from pathlib import Path

import psutil
import pytest
import yaml

from tests.flows.prefect.test_own_server import own_servers
from tests.support.command_line import CommandLine, end, finish, read_until, wait_until
from tests.support.fake_openai import FakeOpenAI
from tests.support.process_template import Forked

pytestmark = pytest.mark.slow

QUESTIONS = 12


@pytest.fixture
def words(tmp_path: Path, fake_openai: FakeOpenAI) -> tuple[str, ...]:
    """The words of an evaluation with two calls in flight."""
    fake_openai.answer = lambda body: '{"sql": "SELECT 1"}'
    backbone = tmp_path / "fake.yaml"
    settings = {
        "model": "m",
        "base_url": fake_openai.base_url,
        "response_mode": "json_object",
        "concurrency": 2,
    }
    backbone.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return (
        "evaluate", "--backbone", str(backbone), "--pipeline", "zero-shot", "--limit", str(QUESTIONS), "--json",
    )  # fmt: skip


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


def test_a_server_that_does_not_start_loses_no_reply(
    own: CommandLine, words: tuple[str, ...], fake_openai: FakeOpenAI
) -> None:
    process, server = started_and_stopped(own, words)
    wait_until(lambda: len(fake_openai.requests) >= 3, timeout=60)
    server.kill()
    ran = finish(process)
    assert ran.code == 2 and "Prefect's server did not start" in ran.err, ran.err
    assert "Every reply that came is kept" in ran.err and "Traceback" not in ran.err
    again = own.run(*words)
    assert again.code == 0, again.err
    assert len(fake_openai.requests) == QUESTIONS, "no reply was bought twice"


def test_an_interrupt_before_the_server_answers_ends_the_command_and_keeps_what_came(
    own: CommandLine, words: tuple[str, ...], fake_openai: FakeOpenAI
) -> None:
    process, _ = started_and_stopped(own, words)
    wait_until(lambda: len(fake_openai.requests) >= 3, timeout=60)
    ran = end(process, signal.SIGINT, timeout=60)
    assert ran.code == 130 and "run the same command again to continue" in ran.err, ran.err
    again = own.run(*words)
    assert again.code == 0, again.err
    assert len(fake_openai.requests) == QUESTIONS


def with_two_calls_in_flight(
    own: CommandLine, words: tuple[str, ...], fake_openai: FakeOpenAI, latency: float
) -> Forked:
    """Start an evaluation whose server does not answer, and wait until both of its requests are sent."""
    fake_openai.latency = latency
    process, _ = started_and_stopped(own, words)
    wait_until(lambda: len(fake_openai.requests) == 2, timeout=60)
    return process


def test_an_interrupt_before_the_server_answers_waits_for_the_calls_in_flight(
    own: CommandLine, words: tuple[str, ...], fake_openai: FakeOpenAI
) -> None:
    process = with_two_calls_in_flight(own, words, fake_openai, latency=8.0)
    ran = end(process, signal.SIGINT, timeout=60)
    assert ran.code == 130 and "given up" not in ran.err, ran.err
    fake_openai.latency = 0.0
    assert own.run(*words).code == 0
    assert len(fake_openai.requests) == QUESTIONS, "no reply was bought twice"


def test_a_second_interrupt_before_the_server_answers_says_what_was_given_up(
    own: CommandLine, words: tuple[str, ...], fake_openai: FakeOpenAI
) -> None:
    process = with_two_calls_in_flight(own, words, fake_openai, latency=30.0)
    process.send_signal(signal.SIGINT)
    read_until(process, "Stopping")
    ran = end(process, signal.SIGINT, timeout=60)
    assert ran.code == 130 and "2 calls in flight were given up" in ran.err, ran.err

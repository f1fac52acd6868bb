import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.protocol import Message, Request
from tests.support import in_process
from tests.support.agent_model import act_as_offline
from tests.support.command_line import CommandLine, Ran
from tests.support.demo import write_backbone
from tests.support.fake_openai import Body, FakeOpenAI, fake_openai
from tests.support.own_benchmark import own_benchmark
from tests.support.prefect_home import prefect_api, prefect_home

__all__ = ["fake_openai", "own_benchmark", "prefect_api", "prefect_home"]


@pytest.fixture
def crosscheck(crosscheck: CommandLine) -> CommandLine:
    """The command line with an empty working folder; what it runs, and does not start, is run in this process."""
    return in_process.CommandsHere(crosscheck.home, crosscheck.environment)


@pytest.fixture
def demo(crosscheck: CommandLine, built_demo: Path) -> CommandLine:
    """The command line with a working folder in which the demo is built."""
    shutil.copytree(built_demo, crosscheck.home, dirs_exist_ok=True)
    return crosscheck


@pytest.fixture
def run_here(built_demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Runs commands that need no Prefect in this process, with a working folder in which the demo is built."""
    shutil.copytree(built_demo, tmp_path / "home", dirs_exist_ok=True)
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    return in_process.run


def answer_as_offline(body: Body) -> str:
    """What the offline backbone answers: a model that is wrong now and then, behind a real API."""
    messages = tuple(Message(turn["role"], turn["content"]) for turn in body["messages"])
    schema = body.get("response_format", {}).get("type") != "text"
    request = Request(messages, {} if schema else None)
    # It never waits for anything, so one step runs it to its end, also inside of the server's event loop.
    try:
        OfflineBackbone().complete(request).send(None)
    except StopIteration as end:
        return str(end.value.text)
    raise AssertionError("the offline backbone waited for something")


def only_sql(body: Body) -> str:
    """What a model answers that was trained for Text-to-SQL alone: `{"sql": ...}`, whatever is asked for."""
    answer = json.loads(answer_as_offline(body))
    return json.dumps({"sql": answer.get("sql") or "SELECT 1"})


@pytest.fixture
def model(fake_openai: FakeOpenAI) -> FakeOpenAI:
    """A local server that speaks the OpenAI API and answers as the offline backbone does."""
    answers: dict[str, str] = {}

    def answer(body: Body) -> str:
        key = str(body["messages"])
        if key not in answers:
            answers[key] = answer_as_offline(body)
        return answers[key]

    fake_openai.answer = answer
    fake_openai.respond = act_as_offline
    return fake_openai


@pytest.fixture
def backbone_file(tmp_path: Path, model: FakeOpenAI) -> str:
    """Path of a backbone's settings that name the local server."""
    prices = {"input": 1.0, "output": 2.0, "as_of": "2026-11-21"}
    how = {"concurrency": 8, "retries": 1, "max_wait_s": 0.2}
    return write_backbone(
        tmp_path / "local.yaml", model, kind="openai", model="local-model", **how, prices=prices
    )

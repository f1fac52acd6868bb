"""The agents of docs/agents.md, as they stand there, with a scripted model in place of a paid one.

The model follows OpenAI's chat completions API: it calls the tool once, and then writes the query in a fence.
"""

import importlib.util
import json
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from crosscheck import Crosscheck
from tasks.benchmarks.predictions import trajectory_file
from tasks.benchmarks.predictions.trajectory_file import read_trajectories
from tests.support.command_line import ROOT
from tests.support.demo import demo_questions
from tests.support.fake_openai import Behaviour, Body, FakeOpenAI

pytestmark = pytest.mark.slow

TEXT = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```python\n# (\w+)\.py\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))
NEEDS = {
    "openai_agent": ("openai",),
    "langgraph_agent": ("langchain.agents", "langchain_openai"),
    "agents_sdk_agent": ("agents.models", "openai"),
}


def texts(body: Body) -> str:
    return "\n".join(str(message.get("content") or "") for message in body["messages"])


def completion(body: Body, message: dict[str, Any]) -> Behaviour:
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if "tool_calls" in message else "stop",
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000, "model": body["model"]}
    return Behaviour(body={**head, "choices": [choice], "usage": usage})


def scripted(gold: dict[str, str]) -> Any:
    """Answer by the question that the conversation holds."""

    def respond(body: Body) -> Behaviour:
        sql = next(sql for question, sql in gold.items() if question in texts(body))
        if body["messages"][-1]["role"] == "tool":
            return completion(body, {"role": "assistant", "content": f"This is it:\n```sql\n{sql}\n```"})
        (tool,) = body["tools"]
        call = {"name": tool["function"]["name"], "arguments": json.dumps({"sql": sql})}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
        }
        return completion(body, message)

    return respond


def load(name: str, folder: Path) -> ModuleType:
    file = folder / f"{name}.py"
    file.write_text(FILES[name], encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def available(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def test_the_object_of_the_page_is_read_with_every_key(tmp_path: Path) -> None:
    (found,) = re.findall(r"^```json\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    file = tmp_path / "agent.jsonl"
    file.write_text(json.dumps(json.loads(found)), encoding="utf-8")
    (trajectory,) = read_trajectories(file).trajectories
    assert (len(trajectory.turns), trajectory.answer) == (2, "SELECT name FROM museum")
    documented = set(re.findall(r"`(\w+)`", TEXT[TEXT.index("| key |") : TEXT.index("Only `question_id`")]))
    models = (trajectory_file.TrajectoryLine, trajectory_file.TurnLine, trajectory_file.ToolCallLine)
    assert {name for model in models for name in model.model_fields} <= documented


def test_every_example_is_run() -> None:
    assert FILES.keys() == NEEDS.keys()


@pytest.mark.parametrize("name", NEEDS)
def test_an_agent_of_the_page_answers_and_its_turns_are_scored(
    name: str, built_demo: Path, tmp_path: Path, fake_openai: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking := [module for module in NEEDS[name] if not available(module)]:
        pytest.skip(f"{', '.join(lacking)} cannot be imported: docs/agents.md says how to install it")
    home = tmp_path / "home"
    shutil.copytree(built_demo, home)
    fake_openai.respond = scripted({each["question"]: each["SQL"] for each in demo_questions(home)[:3]})
    for variable, value in {
        "OPENAI_BASE_URL": fake_openai.base_url,
        "OPENAI_API_KEY": "sk-scripted",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(variable, value)
    agent = getattr(load(name, tmp_path), name)
    run = Crosscheck(home=home, quiet=True).score_agent(agent, limit=3, concurrency=2)
    assert (run.correct, run.total, run.backbone) == (3, 3, name), run.failure_messages
    assert len(fake_openai.requests) == 6
    turns = run.metrics["turns"]
    assert (turns["turns"]["correct"], turns["submitted"]["correct"]) == (6, 3)
    assert turns["tool_errors"] == {"correct": 0, "total": 3, "value": 0.0}
    tokens = None if name == "agents_sdk_agent" else 600
    assert run.cost.input_tokens == tokens
    assert sys.modules.get(name) is None

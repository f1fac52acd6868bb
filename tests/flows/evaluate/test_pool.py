"""The order in which a pool runs questions: one of each database first where the endpoint has a prefix cache."""

import json
from pathlib import Path

import pytest
import yaml

from tests.support.command_line import CommandLine
from tests.support.fake_openai import FakeOpenAI


@pytest.mark.slow
@pytest.mark.parametrize(
    "prices", [{}, {"prices": {"input": 1, "cached_input": 0.1, "output": 4, "as_of": "2026-11-01"}}]
)
def test_one_question_of_each_database_runs_before_the_others_where_its_prompts_cost_less(
    crosscheck: CommandLine, fake_openai: FakeOpenAI, tmp_path: Path, prices: dict[str, object]
) -> None:
    fake_openai.answer = lambda body: json.dumps({"sql": "SELECT 1"})
    fake_openai.latency = 1.0
    file = tmp_path / "mine.yaml"
    content = {
        "model": "m",
        "base_url": fake_openai.base_url,
        "concurrency": 32,
        "response_mode": "json_object",
        **prices,
    }
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    ran = crosscheck.run(
        "evaluate", "--backbone", str(file), "--pipeline", "zero-shot", "--questions", "0,16-19", "--json"
    )  # fmt: skip
    assert ran.code == 0, ran.err
    first, second, *others = sorted(request.at for request in fake_openai.requests)
    assert len(others) == 3 and second > first + 0.4, "the others wait half a second for the first answer"
    assert sum(at < second + 0.9 for at in others) == (0 if prices else 3)

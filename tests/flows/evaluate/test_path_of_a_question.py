"""How many of the project's own frames lie between a command and a request to the model."""

import json
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, finish, start_module
from tests.support.fake_openai import FakeOpenAI
from tests.support.frames import counted

pytestmark = pytest.mark.slow

MAX_FRAMES = {"rsl-sql": 12, "rsl-sql+dac": 13}
"""By pipeline. Two frames are the own ones of DAC (`Decomposition.correct`, `.link`), one of RSL-SQL's linking."""


@pytest.mark.parametrize("pipeline", MAX_FRAMES)
def test_the_path_from_the_command_to_the_request_is_short(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, tmp_path: Path, pipeline: str
) -> None:
    log = tmp_path / "frames.jsonl"
    words = ("evaluate", "--backbone", backbone_file, "--pipeline", pipeline, "--limit", "8")
    ran = finish(start_module("tests.support.frames", (str(log), *words), demo.all_of_environment))
    assert ran.code == 0, ran.err
    paths = [counted(json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]
    assert len(paths) == len(model.requests) > 0
    longest = max(paths, key=len)
    asked_in_dac = any(name.startswith("flows.pipelines.dac.") for path in paths for name in path)
    assert asked_in_dac == pipeline.endswith("+dac")
    assert longest[-1].startswith("tasks.backbone.endpoint."), longest
    assert len(longest) <= MAX_FRAMES[pipeline], "\n".join([str(len(longest)), *longest])

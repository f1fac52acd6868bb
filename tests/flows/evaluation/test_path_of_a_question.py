"""How many of the project's own frames lie between a command and a request to the model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.fake_openai import FakeOpenAI
from tests.support.frames import counted

MOST = 15


@pytest.mark.parametrize("pipeline", ["rsl-sql+dac"])
def test_the_path_from_the_command_to_the_request_is_short(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, tmp_path: Path, pipeline: str
) -> None:
    log = tmp_path / "frames.jsonl"
    command = demo.command("evaluate", "--backbone", backbone_file, "--pipeline", pipeline, "--limit", "1")
    arguments = [sys.executable, "-m", "tests.support.frames", str(log), *command[3:]]
    ran = subprocess.run(
        arguments, cwd=demo.cwd, env=demo.all_of_environment, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    paths = [counted(json.loads(line)) for line in log.read_text(encoding="utf-8").splitlines()]
    assert len(paths) == len(model.requests) > 0
    longest = max(paths, key=len)
    assert any(name.startswith("flows.pipelines.dac.") for name in longest), "DAC's correction lies deepest"
    assert longest[-1].startswith("tasks.backbone.endpoint.client."), longest
    assert len(longest) <= MOST, "\n".join([str(len(longest)), *longest])

"""Evaluations that are killed around the moment at which their recording takes its name."""

import json
from contextlib import ExitStack
from pathlib import Path
from signal import SIGKILL

import pytest

from tasks.results.warehouse.runs import Warehouse
from tasks.results.warehouse.tables import WarehouseFile
from tests.support.command_line import CommandLine, end, wait_until
from tests.support.fake_openai import Body, FakeOpenAI

pytestmark = pytest.mark.slow


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    folder = tmp_path / "recordings"
    folder.mkdir()
    return folder / "run.jsonl"


@pytest.fixture
def command(backbone_file: str, recording: Path) -> tuple[str, ...]:
    return ("evaluate", "--pipeline", "zero-shot", "--backbone", backbone_file, "--record", str(recording))


def completed(demo: CommandLine, recording: Path, *command: str) -> None:
    """Give the command again: it must be taken, ask nothing again, and leave a whole recording."""
    ran = demo.run(*command, "--json")
    assert ran.code == 0, ran.err
    lines = [json.loads(line) for line in recording.read_text(encoding="utf-8").splitlines()]
    assert [line["question"] for line in lines] == ["0", "1"]
    assert ran.json["cost"]["calls"] == 0 and ran.json["cost"]["cached_calls"] == 2


def others_are_refused(demo: CommandLine, recording: Path, *command: str) -> None:
    before = recording.read_bytes()
    refused = demo.run(*command, "--set", "backbone.temperature=0.5")
    assert refused.code == 2 and "the file exists" in refused.err, refused.err
    assert recording.read_bytes() == before


def test_a_recording_that_another_evaluation_writes_meanwhile_stays(
    demo: CommandLine, command: tuple[str, ...], model: FakeOpenAI, recording: Path
) -> None:
    ordinary = model.answer

    def answer(body: Body) -> str:
        recording.write_text("of another evaluation", encoding="utf-8")
        return ordinary(body)

    model.answer = answer
    ran = demo.run(*command, "--limit", "1", "--json")
    assert ran.code == 2 and "Traceback" not in ran.err, ran.err
    assert ran.json["total"] == 1 and "the file exists" in ran.json["notes"][0]
    (run,) = Warehouse(demo.home / "warehouse.duckdb").runs()
    assert run.status == "complete"
    assert recording.read_text(encoding="utf-8") == "of another evaluation"
    elsewhere = demo.run(*command[:-1], f"{recording}.other", "--limit", "1", "--json")
    assert elsewhere.json["cost"]["calls"] == 0 and len(model.requests) == 1


@pytest.mark.parametrize("earlier", [False, True])
def test_an_evaluation_that_is_killed_before_its_recording_has_its_name_leaves_what_was_there(
    demo: CommandLine, command: tuple[str, ...], model: FakeOpenAI, recording: Path, earlier: bool
) -> None:
    if earlier:
        assert demo.run(*command, "--limit", "1").code == 0
    before = recording.read_bytes() if earlier else None
    ordinary = model.answer
    with ExitStack() as held:

        def answer(body: Body) -> str:
            """Hold the warehouse from here on: the evaluation waits where it writes to it next."""
            model.answer = ordinary
            held.enter_context(WarehouseFile(demo.home / "warehouse.duckdb").exclusive())
            return ordinary(body)

        model.answer = answer
        process = demo.start(*command, "--limit", "2")
        wait_until(lambda: len(list(recording.parent.iterdir())) > earlier or process.poll() is not None)
        assert end(process, SIGKILL).code == -SIGKILL
    assert (recording.read_bytes() if recording.exists() else None) == before
    if earlier:
        others_are_refused(demo, recording, *command, "--limit", "2")
    completed(demo, recording, *command, "--limit", "2")


def test_an_evaluation_that_is_killed_when_its_recording_has_its_name_continues(
    demo: CommandLine, command: tuple[str, ...], recording: Path
) -> None:
    process = demo.start(*command, "--limit", "2")
    wait_until(lambda: recording.exists() or process.poll() is not None)
    assert end(process, SIGKILL).code == -SIGKILL
    (run,) = Warehouse(demo.home / "warehouse.duckdb").runs()
    assert not run.finished
    others_are_refused(demo, recording, *command, "--limit", "2")
    completed(demo, recording, *command, "--limit", "2")

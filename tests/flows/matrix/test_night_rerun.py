"""`crosscheck rerun --night`: everything that a real night left is asked again by one command."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine, finish, start_module
from tests.support.fake_openai import Body, FakeOpenAI
from tests.support.gold_model import question_of
from tests.support.in_process import run

LIMIT = 6


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """A pipeline whose file is wrong during the night."""
    file = tmp_path / "later.yaml"
    file.write_text("kind: few-shot\nunknown: 1\n", encoding="utf-8")
    return file


@pytest.fixture
def night(demo: CommandLine, backbone_file: str, model: FakeOpenAI, later: Path) -> dict[str, Any]:
    """A night in which two questions of two pipelines got no answer, and a third pipeline was not evaluated."""
    ordinary = model.answer
    questions: dict[str, None] = {}

    def lose_two(body: Body) -> str:
        questions.setdefault(question_of(body))
        if question_of(body) in list(questions)[:2]:
            raise ConnectionError
        return ordinary(body)

    model.answer = lose_two
    arguments = (backbone_file, str(LIMIT), "zero-shot", "few-shot", str(later))
    ran = finish(start_module("tests.support.night_process", arguments, demo.all_of_environment))
    assert ran.code == 0, ran.err
    model.answer = ordinary
    told: dict[str, Any] = ran.json
    return told


@pytest.mark.slow
def test_one_command_repeats_everything_that_a_night_left_and_pays_for_nothing_twice(
    demo: CommandLine, night: dict[str, Any], later: Path, model: FakeOpenAI
) -> None:
    verdicts = ["too many unanswered", "too many unanswered", "infrastructure"]
    assert [entry["verdict"] for entry in night["entries"]] == verdicts
    shown = demo.run("nights", "show", "latest")
    assert shown.code == 0, shown.err
    for words in ("too many unanswered: 2 of 6", "not evaluated", "crosscheck rerun --night night"):
        assert words in shown.out
    refused = demo.run("rerun", "--night", "latest")
    assert refused.code == 2 and "unknown" in refused.err

    later.write_text("kind: few-shot\ndemonstrations: {k: 1}\n", encoding="utf-8")
    asked = len(model.requests)
    poor = demo.run("rerun", "--night", "latest", "--budget", "0.000001", "--json")
    assert poor.code == 3, poor.err
    first, second, third = poor.json["evaluations"]
    assert [(each["parent"], each["questions"]) for each in (first, second, third)] == [
        (night["entries"][0]["run"]["run_id"], 2), (night["entries"][1]["run"]["run_id"], 2), (None, None),
    ]  # fmt: skip
    assert "Nightly run night: 4 questions of 2 runs, and 1 evaluation without a run." in poor.err
    assert all("the budget of <$0.0001 is spent" in each["problem"] for each in (second, third))

    whole = demo.run("rerun", "--night", "night")
    assert whole.code == 0, whole.err
    assert "demo | local | later: EX " in whole.out
    assert len(model.requests) - asked == 2 + 2 + LIMIT
    runs = demo.run("runs", "--tag", "night=night", "--json").json["runs"]
    assert {run["pipeline"]: run["unanswered"] for run in reversed(runs)} == {
        "zero-shot": 0, "few-shot": 0, "later": 0,
    }  # fmt: skip
    nothing = demo.run("rerun", "--night", "latest")
    assert (nothing.code, nothing.out) == (0, "Nightly run night has no question to repeat.\n")


def test_prefect_prints_no_lines_of_its_own(tmp_path: Path) -> None:
    """It reads on import how much it prints; other tests run where it has been imported already."""
    program = (
        "import logging; from flows.cli.program import run; "
        f"run(['rerun', '--night', 'latest', '--home', {str(tmp_path)!r}]); "
        "print(logging.getLogger('prefect.engine').isEnabledFor(logging.INFO))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_a_run_or_a_night_is_named(tmp_path: Path) -> None:
    for arguments in (("rerun",), ("rerun", "latest", "--night", "latest")):
        ran = run(*arguments, "--home", str(tmp_path))
        assert ran.code == 2 and "Name a RUN, or a nightly run with --night" in ran.err
    ran = run("rerun", "--night", "latest", "--home", str(tmp_path))
    assert ran.code == 2 and "none has finished in this folder yet" in ran.err

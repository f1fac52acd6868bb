"""Exceptions in a user's own code: named with the user's file and line, never called an internal error."""

import re
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

pytestmark = pytest.mark.slow


@pytest.fixture
def demo(demo: CommandLine) -> CommandLine:
    """Commands in processes of their own: one process imports a user's file once."""
    return CommandLine(demo.home, demo.environment)


PIPELINES = '''
from flows.pipelines.one_call import few_shot
from flows.pipelines.pipeline import Context
from flows.pipelines.pipeline import pipeline
from tasks.core.records import Question
from tasks.settings.pipeline import FewShotSettings


@pipeline(FewShotSettings)
async def broken(question: Question, context: Context[FewShotSettings]) -> str | None:
    """Fails on every question."""
    return {}["sql"]


@pipeline(FewShotSettings)
async def sometimes(question: Question, context: Context[FewShotSettings]) -> str | None:
    """Fails on one of the first four questions."""
    first = "shelf mark" in question.text
    return {}["sql"] if first else await few_shot(question, context)
'''
METRIC = """
from tasks.scoring.metric import ScoredRun, metric
from tasks.scoring.scores import Measurement


@metric("Mine")
def mine(run: ScoredRun) -> Measurement:
    return Measurement(run.nothing)
"""


RETURNS = """
from crosscheck import BackboneKind, BackboneSettings, Message, ReplyFormat, Request


class Wrong:
    identity = {"kind": "wrong"}

    def __init__(self, settings: BackboneSettings) -> None: ...

    async def complete(self, request: Request):
        return 5


class Silent(ReplyFormat):
    def read(self, text, reply_type):
        return None


wrong = BackboneKind(Wrong, BackboneSettings)
"""


@pytest.fixture
def mine(demo: CommandLine, tmp_path: Path) -> Path:
    file = tmp_path / "three.py"
    file.write_text(PIPELINES, encoding="utf-8")
    return file


def line_of(file: Path, text: str) -> int:
    return next(n for n, line in enumerate(file.read_text().splitlines(), 1) if text in line)


def test_a_pipeline_that_fails_on_every_question_ends_with_its_file_and_line(
    demo: CommandLine, mine: Path
) -> None:
    ran = demo.run("evaluate", "--pipeline", f"{mine}:broken", "--limit", "3")
    assert ran.code == 2
    line = line_of(mine, 'return {}["sql"]')
    assert f"{mine}:{line}, in broken: KeyError: 'sql'. This failed 3 of 3 questions" in ran.err
    assert "internal error" not in ran.err and "report it" not in ran.err


def test_a_pipeline_that_fails_on_some_questions_keeps_the_others_and_names_the_place(
    demo: CommandLine, mine: Path
) -> None:
    first = demo.run("evaluate", "--pipeline", f"{mine}:sometimes", "--limit", "4")
    assert first.code == 3
    assert re.search(r"1 of 4 questions \(\d+\) has no answer \(extension_error\)", first.out)
    assert f"{mine}:{line_of(mine, 'if first')}, in sometimes: KeyError: 'sql'" in first.out
    mine.write_text(PIPELINES.replace('{}["sql"] if first else ', ""), encoding="utf-8")
    again = demo.run("evaluate", "--pipeline", f"{mine}:sometimes", "--limit", "4")
    assert again.code == 0, again.out


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("--backbone={}:wrong", "Wrong returned a value of the type int, not a Reply"),
        ("--set=backbone.reply={}:Silent", "Silent returned a value of the type NoneType, not a Reading"),
    ],
)
def test_a_value_of_another_type_than_the_protocol_has_is_named(
    demo: CommandLine, tmp_path: Path, setting: str, problem: str
) -> None:
    file = tmp_path / "returns.py"
    file.write_text(RETURNS, encoding="utf-8")
    ran = demo.run("evaluate", "--pipeline", "rsl-sql", "--limit", "1", setting.format(file))
    assert ran.code == 2 and f"{problem}. This failed 1 of 1 question" in ran.err, ran.err
    assert "internal error" not in ran.err


@pytest.mark.parametrize("name", ["", ":nope"])
def test_a_python_file_without_a_pipelines_name_is_answered_with_those_in_it(
    demo: CommandLine, mine: Path, name: str
) -> None:
    ran = demo.run("evaluate", "--pipeline", f"{mine}{name}")
    assert ran.code == 2
    assert "broken" in ran.err and "sometimes" in ran.err
    assert "Context" not in ran.err and "FewShotSettings" not in ran.err


def test_a_metric_that_fails_is_unknown_and_named_with_its_place_and_a_unit_that_is_none_refused(
    demo: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "metrics.py"
    file.write_text(METRIC, encoding="utf-8")
    metric = ("--set", f"benchmark.metrics=[{file}:mine]")
    ran = demo.run("evaluate", "--pipeline", "few-shot", "--limit", "2", *metric)
    assert ran.code == 2, ran.err
    place = f"{file}:{line_of(file, 'run.nothing')}, in mine"
    assert f"Mine: unknown, {place}: AttributeError" in " ".join(ran.out.split())
    file.write_text(METRIC.replace('"Mine"', '"Mine", unit="%"'), encoding="utf-8")
    ran = demo.run("evaluate", "--limit", "1", "--set", f"benchmark.metrics=[{file}:mine]")
    ran.assert_refused('There is no unit "%"', "share")

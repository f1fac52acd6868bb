"""Exceptions in a user's own code: named with the user's file and line, never called an internal error."""

import json
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
import decimal
import json
import sys

from crosscheck import (
    Answer, BackboneKind, BackboneSettings, Call, Context, FewShotSettings, Layout, Measurement, Message,
    Question, Reply, ReplyFormat, Request, ScoredRun, Split, Usage, metric, pipeline,
)


class Wrong:
    identity = {"kind": "wrong"}

    def __init__(self, settings: BackboneSettings) -> None: ...

    async def complete(self, request: Request):
        return 5


def priced(cost):
    class Priced(Wrong):
        async def complete(self, request: Request):
            return Reply("{}", Call("", "m", Usage(1), False, 0.0, cost_usd=cost))

    return BackboneKind(Priced, BackboneSettings)


text_cost, no_cost, negative = priced("much"), priced(float("nan")), priced(-1)


class Prompt(Wrong):
    def complete(self, request: Request):
        return Reply("{}", Call("", "m", Usage(1), False, 0.0))


class Bare:
    pass


class Nameless(Wrong):
    identity = None


class Silent(ReplyFormat):
    def read(self, text, reply_type):
        return None


class Mute(ReplyFormat):
    def instruction(self, written, reply_type):
        print("asked")


class Shapeless(ReplyFormat):
    def schema(self, reply_type):
        return 5


class Narrow(ReplyFormat):
    def schema(self):
        return {}


class Nullary(Layout):
    def read_split(self):
        return None


class Numbers(Layout):
    def read_split(self, path):
        rows = json.loads(path.read_text(encoding="utf-8"))
        questions = tuple(Question(row["id"], row["question"], row["db_id"]) for row in rows)
        return Split(questions, {row["id"]: row["SQL"] for row in rows}, "")


@metric("Ends")
def ends(run: ScoredRun) -> Measurement:
    print("measured")
    sys.exit(0)


@metric("Number")
def number(run: ScoredRun) -> Measurement:
    return 5


@metric("Exact")
def exact(run: ScoredRun) -> Measurement:
    return Measurement(decimal.Decimal("1.5"))


@metric("Sets")
def sets(run: ScoredRun) -> Measurement:
    return Measurement(1, by_question={row.question.id: {1, 2} for row in run.scored})


@pipeline(FewShotSettings)
def at_once(question: Question, context: Context[FewShotSettings]) -> str | None:
    return "SELECT 1"


@pipeline(FewShotSettings)
async def lonely(question: Question) -> str | None:
    return "SELECT 1"


@pipeline(FewShotSettings)
async def exits(question: Question, context: Context[FewShotSettings]) -> str | None:
    sys.exit(0)


@pipeline(FewShotSettings)
async def numbered(question: Question, context: Context[FewShotSettings]) -> str | None:
    return 5


@pipeline(FewShotSettings)
async def recorded(question: Question, context: Context[FewShotSettings]) -> str | None:
    return context.record.sql("first", Answer("SELECT 1"))


@pipeline(FewShotSettings)
async def exhausted(question: Question, context: Context[FewShotSettings]) -> str | None:
    return next(iter(()))


wrong = BackboneKind(Wrong, BackboneSettings)
prompt = BackboneKind(Prompt, BackboneSettings)
bare = BackboneKind(Bare, BackboneSettings)
nameless = BackboneKind(Nameless, BackboneSettings)
"""


REST_OF_BENCHMARK = """
revision: "1"
folder: ./
databases: .
tables: ""
train: null
demonstrations: false
rule: bird
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
        (
            "--backbone={}:text_cost",
            "Priced returned a Reply with a wrong call: "
            "cost_usd: Input should be a valid number, unable to parse string as a number",
        ),
        (
            "--backbone={}:no_cost",
            "Priced returned a Reply with a wrong call: "
            "cost_usd is nan, not from 0 to 100,000,000; None means unknown",
        ),
        (
            "--backbone={}:negative",
            "Priced returned a Reply with a wrong call: "
            "cost_usd is -1.0, not from 0 to 100,000,000; None means unknown",
        ),
        ("--set=backbone.reply={}:Silent", "Silent returned a value of the type NoneType, not a Reading"),
        ("--set=backbone.reply={}:Mute", "Mute returned a value of the type NoneType, not a str"),
        (
            "--set=backbone.reply={}:Shapeless",
            "Shapeless returned a value of the type int, not a Mapping | None",
        ),
        ("--pipeline={}:numbered", "the pipeline returned a value of the type int, not a str | None"),
        (
            "--pipeline={}:numbered --set=pipeline.candidates.n=2 "
            "--set=pipeline.candidates.demonstrations=shuffled",
            "the pipeline returned a value of the type int, not a str | None",
        ),
        (
            "--pipeline={}:recorded",
            "in recorded: record.sql was given a value of the type Answer, not a str | None",
        ),
        (
            "--backbone={}:prompt",
            "Prompt.complete is not an `async def`: it returned a value of the type Reply, not",
        ),
        (
            "--set=backbone.reply={}:Narrow",
            "Narrow.schema cannot be called as Crosscheck calls it: Narrow.schema() takes 1 positional",
        ),
        (
            "--pipeline={}:at_once",
            "at_once is not an `async def`: it returned a value of the type str, not a Awaitable",
        ),
        (
            "--pipeline={}:lonely",
            "lonely cannot be called as Crosscheck calls it: lonely() takes 1 positional argument but 2 were",
        ),
        ("--pipeline={}:exhausted", "in exhausted: RuntimeError: coroutine raised StopIteration"),
        ("--pipeline={}:exits", "in exits: SystemExit: 0"),
    ],
)
def test_a_value_of_another_type_than_the_protocol_has_is_named(
    demo: CommandLine, tmp_path: Path, setting: str, problem: str
) -> None:
    file = tmp_path / "returns.py"
    file.write_text(RETURNS, encoding="utf-8")
    ran = demo.run("evaluate", "--pipeline=rsl-sql", "--limit", "1", *setting.format(file).split())
    assert ran.code == 2 and problem in ran.err and ". This failed 1 of 1 question" in ran.err, ran.err
    assert "internal error" not in ran.err


def test_a_backbone_without_settings_and_a_layout_without_a_path_are_refused(
    demo: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "returns.py"
    file.write_text(RETURNS, encoding="utf-8")
    ran = demo.run("evaluate", "--pipeline=rsl-sql", "--limit", "1", f"--backbone={file}:bare")
    ran.assert_refused("Bare cannot be called as Crosscheck calls it: Bare() takes no arguments")
    (tmp_path / "dev.json").write_text("[]", encoding="utf-8")
    settings = f"layout: {file}:Nullary\nquestions: dev.json\n" + REST_OF_BENCHMARK
    (tmp_path / "mine.yaml").write_text(settings, encoding="utf-8")
    ran = demo.run("evaluate", f"--benchmark={tmp_path / 'mine.yaml'}", "--limit", "1")
    ran.assert_refused("Nullary.read_split cannot be called as Crosscheck calls it")


def test_a_backbone_without_an_identity_is_refused(demo: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "returns.py"
    file.write_text(RETURNS, encoding="utf-8")
    ran = demo.run("evaluate", "--pipeline=rsl-sql", "--limit", "1", f"--backbone={file}:nameless")
    assert (
        ran.code == 2 and "Nameless has, as its identity, a value of the type NoneType, not a" in ran.err
    ), ran.err


def test_a_metric_that_ends_the_process_or_returns_a_number_is_unknown_and_prints_nothing_into_the_json(
    demo: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "returns.py"
    file.write_text(RETURNS, encoding="utf-8")
    metrics = f"benchmark.metrics=[{file}:ends, {file}:number, {file}:exact, {file}:sets]"
    ran = demo.run("evaluate", "--pipeline", "zero-shot", "--limit", "1", "--set", metrics, "--json")
    assert ran.code == 2 and "measured" in ran.err
    record = json.loads(ran.out)
    line = line_of(file, "sys.exit(0)")
    assert record["metrics"]["ends"]["error"] == f"{file}:{line}, in ends: SystemExit: 0"
    assert "a value of the type Decimal, not a" in record["metrics"]["exact"]["error"]
    assert "set is not JSON serializable" in record["metrics"]["sets"]["error"]
    assert (
        "number returned a value of the type int, not a Measurement" in record["metrics"]["number"]["error"]
    )


def test_a_layout_with_numbers_as_ids_is_refused_before_a_question_is_asked(
    demo: CommandLine, tmp_path: Path
) -> None:
    file = tmp_path / "returns.py"
    file.write_text(RETURNS, encoding="utf-8")
    question = {"id": 1, "question": "How many?", "db_id": "shop", "SQL": "SELECT 1"}
    (tmp_path / "dbs").mkdir()
    (tmp_path / "dev.json").write_text(json.dumps([question]), encoding="utf-8")
    settings = "description: Own\nlayout: returns.py:Numbers\nfolder: .\nquestions: dev.json\ntables: ''\n"
    (tmp_path / "own.yaml").write_text(f"{settings}databases: dbs\nrevision: '1'\nrule: bird\n")
    own = ("--benchmark", str(tmp_path / "own.yaml"), "--data", str(tmp_path))
    ran = demo.run("evaluate", "--pipeline", "zero-shot", *own)
    ran.assert_refused(f"question 1 of {file}:Numbers has a value of the type int, not a str")


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

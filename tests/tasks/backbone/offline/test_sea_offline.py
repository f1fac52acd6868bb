"""What the offline model says to SEA-SQL's prompts: weakly, honestly, and in the format asked for."""

import asyncio
import json
from dataclasses import replace

import pytest

from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.offline.prompt.schema_text import read_schema
from tasks.backbone.protocol import Message, Request
from tasks.core.records import Question
from tasks.database.rendering import PromptParts
from tasks.stage_runs import prompts
from tasks.stages.sea_sql.continuation import read_continuation
from tasks.stages.sea_sql.elimination_prompt import EliminationPrompt
from tasks.stages.sea_sql.execution_adjustment import Mistake
from tasks.stages.shown_results import ExecutedSql
from tests.tasks.backbone.offline.prompts import messages as rendered

PARTS = PromptParts(
    "`baker`(`Baker_ID`: 1 | 2, `Name`: 'Ada (Rye)' | 'O''Spelt, B', `Home Town`: 'Kettle', `ph``one`)\n"
    "`fair`(`Fair_ID`, `Baker_ID`, `Year`: 2014 | 2015)",
    foreign_keys="`fair`.`Baker_ID` = `baker`.`Baker_ID`",
)
QUESTION = Question("1", "How many bakers are from Kettle?", "bakery")


def ask(*messages: Message) -> str:
    return asyncio.run(OfflineBackbone().complete(Request(messages))).text


def shown(template: str, *mistakes: Mistake) -> tuple[Message, ...]:
    return rendered(template, question=QUESTION, dialect="SQLite", parts=PARTS, mistakes=list(mistakes))


MISTAKE = Mistake(1, "SELECT Nam FROM baker", "Error: no such column: Nam")


def test_the_schema_with_values_is_read_back() -> None:
    schema = read_schema(PARTS.schema, "", PARTS.foreign_keys, dialect="sqlite")
    columns = {str(column.name): column for column in schema.columns}
    assert list(columns) == [
        "baker.Baker_ID",
        "baker.Name",
        "baker.Home Town",
        "baker.ph`one",
        "fair.Fair_ID",
        "fair.Baker_ID",
        "fair.Year",
    ]
    assert columns["baker.Name"].samples == ("Ada (Rye)", "O'Spelt, B")
    assert (columns["fair.Year"].kind, columns["baker.Name"].kind) == ("number", "text")
    assert [(str(key.child), str(key.parent)) for key in schema.references] == [
        ("fair.Baker_ID", "baker.Baker_ID")
    ]


def test_a_query_goes_on_from_select() -> None:
    text = prompts.render(
        "zero_shot_sql",
        question=QUESTION,
        dialect="SQLite",
        parts=PARTS,
        demonstrations=[],
        demonstrations_first=False,
    )
    reply = ask(Message("user", text.rstrip()))
    assert not reply.startswith("SELECT")
    assert read_continuation(reply, "sqlite") == "SELECT COUNT(*) FROM baker WHERE `Home Town` = 'Kettle'"


def test_without_a_question_it_says_nothing() -> None:
    assert ask(Message("user", "### Query\nSELECT")) == ""


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("Error: no such column: Nam", "The database says: no such column: Nam."),
        ('Error: near "FORM": syntax error', 'The database says: near "FORM": syntax error.'),
        (
            "Time-out: the query took too long and was stopped.",
            "The database says: Time-out: the query took too long and was stopped.",
        ),
    ],
)
def test_it_says_why_a_query_fails_as_far_as_the_error_does(result: str, reason: str) -> None:
    assert ask(*shown("execution_reflection", replace(MISTAKE, result=result))) == reason


def test_it_corrects_to_a_query_that_was_not_tried() -> None:
    own = "SELECT COUNT(*) FROM baker WHERE `Home Town` = 'Kettle'"
    first = json.loads(ask(*shown("execution_correction", replace(MISTAKE, reason="It says so."))))
    assert first == {"sql": own}
    again = Mistake(2, own, "Error: odd", "It says so.")
    second = json.loads(ask(*shown("execution_correction", replace(MISTAKE, reason="It says so."), again)))
    assert second["sql"] not in (own, MISTAKE.sql)


def judged(sql: str, result: str) -> str:
    prompt = EliminationPrompt(
        prompts.render("bias_elimination", "instruction", dialect="SQLite").strip(),
        prompts.render(
            "bias_elimination", "input", parts=PARTS, question=QUESTION, candidate=ExecutedSql(sql, result)
        ).strip(),
    )
    return ask(Message("user", prompt.text))


def test_as_eliminator_it_repeats_what_runs_and_replaces_what_fails() -> None:
    assert judged("SELECT 1", "1\n1") == "SELECT 1"
    assert judged("SELECT Nam FROM baker", "Error: no such column: Nam").startswith("SELECT COUNT(*)")

"""The offline reader: what it reads in a question, and every kind of reply, in the form that the prompt asks for."""

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.protocol import Message, Request, Tool, request_key
from tasks.core.outcome import Usage
from tasks.core.records import Demonstration
from tasks.database.schema_text import PromptParts
from tasks.stages import prompts
from tasks.stages.schema_prompt import ExecutedSql
from tasks.stages.sea_sql import Mistake
from tests.tasks.backbone.offline.prompts import PARTS, SCHEMA, ask, preliminary, question, rows, sql_for
from tests.tasks.backbone.offline.prompts import messages as rendered

KETTLE = "What are the names of bakers from Kettle?"
ASKED = {"question": question(KETTLE), "dialect": "SQLite", "parts": PARTS, "rules": "all"}
NO_COLUMN = ExecutedSql("SELECT Nam FROM baker", "Error: no such column: Nam")


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("How many bakers are there?", "SELECT COUNT(*) FROM baker"),
        (KETTLE, "SELECT Name FROM baker WHERE `Home Town` = 'Kettle'"),
        ("What is the average age of bakers?", "SELECT AVG(Age) FROM baker"),
        ("Which baker is the oldest?", "SELECT Name FROM baker ORDER BY Age DESC LIMIT 1"),
        (
            "List the name and age of all bakers sorted by age in descending order.",
            "SELECT Name, Age FROM baker ORDER BY Age DESC",
        ),
        ("How many bakers have the age above 40?", "SELECT COUNT(*) FROM baker WHERE Age > 40"),
        ("How many bakers per home town?", "SELECT `Home Town`, COUNT(*) FROM baker GROUP BY `Home Town`"),
        (
            "What are the names of bakers from Kettle or Millford?",
            "SELECT Name FROM baker WHERE (`Home Town` = 'Kettle' OR `Home Town` = 'Millford')",
        ),
        (
            "What are the titles of fairs at markets in the district 'Harbour'?",
            "SELECT Title FROM fair JOIN market ON fair.Market_ID = market.Market_ID WHERE District = 'Harbour'",
        ),
    ],
)
def test_a_question_becomes_a_query(text: str, sql: str) -> None:
    assert sql_for(text) == sql
    rows(sql)


def test_evidence_and_descriptions_are_read_and_demonstrations_change_nothing() -> None:
    old = sql_for("What are the names of old bakers?", "old bakers refers to Age >= 50")
    assert old == "SELECT Name FROM baker WHERE Age >= 50"
    demonstrations = [Demonstration(KETTLE, "SELECT 1", "bakers")]
    assert sql_for(KETTLE, demonstrations=demonstrations) == sql_for(KETTLE)
    parts = PromptParts("# `t`(`id`, `x9`, `y`)", descriptions="# `t`.`x9`: height of the tower, in metres")
    assert ask(preliminary("What is the average height?", parts=parts))["sql"] == "SELECT AVG(x9) FROM t"


def corrected(text: str, sql: str, result: str) -> str:
    asked = ASKED | {"question": question(text)}
    return str(ask(rendered("self_correction", **asked, current=ExecutedSql(sql, result)))["sql"])


def test_an_ambiguous_column_is_qualified() -> None:
    text = "What are the market id and district of fairs?"
    ambiguous = sql_for(text)
    with pytest.raises(sqlite3.OperationalError, match="ambiguous"):
        rows(ambiguous)
    fixed = corrected(text, ambiguous, "Error: ambiguous column name: Market_ID")
    assert fixed.startswith("SELECT fair.Market_ID, market.District")
    assert len(rows(fixed)) == 3


def test_a_query_with_a_missing_column_is_written_again() -> None:
    assert corrected(KETTLE, NO_COLUMN.sql, NO_COLUMN.result) == sql_for(KETTLE)


def test_an_empty_result_brings_a_part_of_the_value_in_any_case() -> None:
    kettle = ["Ben Spelt", "Cleo Oat"]
    for value, names in (("KETTLE", kettle), ("'ettl'", kettle), ("Ada", ["Ada Rye"])):
        text = f"What are the names of bakers from {value}?"
        sql = sql_for(text)
        assert rows(sql) == []
        assert [name for (name,) in rows(corrected(text, sql, "No rows."))] == names


def test_a_conversation_corrects_once_and_then_repeats_its_query() -> None:
    messages: tuple[Message, ...] = rendered("self_correction", **ASKED, current=NO_COLUMN)
    written = [NO_COLUMN.sql]
    for _ in range(3):
        written.append(ask(messages)["sql"])
        current = ExecutedSql(written[-1], "No rows.")
        turn = prompts.render(
            "self_correction", "again", current=current, dialect="SQLite", empty_counts=True
        )
        messages = (*messages, Message("assistant", json.dumps({"sql": written[-1]})), Message("user", turn))
    assert len(set(written)) == 3 and written[-1] == written[-2]


GOOD = ExecutedSql("SELECT Name FROM baker WHERE Age = 41", "Name\nBen Spelt")
EMPTY = ExecutedSql("SELECT Name FROM baker WHERE Name = 'Kettle'", "No rows.")
NULLS = ExecutedSql("SELECT phone FROM baker WHERE Age = 41", "phone\nNULL")


@pytest.mark.parametrize("bad", [EMPTY, NO_COLUMN, NULLS])
def test_a_result_without_surprise_wins_on_either_side(bad: ExecutedSql) -> None:
    for place, candidates in ((1, [GOOD, bad]), (2, [bad, GOOD])):
        shown = ASKED | {"candidates": candidates, "votes": [1, 1]}
        assert ask(rendered("binary_selection", **shown)) == {"sql": GOOD.sql}
        assert ask(rendered("merge_candidates", **shown)) == {"sql": GOOD.sql}
        assert ask(rendered("compare_candidates", **shown)) == {"better": place}


def test_where_both_fail_another_query_is_written() -> None:
    other = ExecutedSql("SELECT Nmae FROM baker", "Error: no such column: Nmae")
    assert rows(ask(rendered("binary_selection", **ASKED, candidates=[NO_COLUMN, other]))["sql"])


def test_feedback_changes_a_query_that_fails_and_no_other() -> None:
    failed = {"alignment": (), "sql": NO_COLUMN.sql, "missing": ["x"], "skeleton": "select _ from _"}
    feedback = ASKED | failed
    failing = rendered("dac_correction", **feedback, kind="execution", error=NO_COLUMN.result)
    assert rows(ask(failing)["sql"])
    for kind in ("entities", "skeleton"):
        assert ask(rendered("dac_correction", **feedback, kind=kind, error="")) == {"sql": NO_COLUMN.sql}


def test_a_link_has_joining_columns_and_hints() -> None:
    asked = ASKED | {"question": question("What are the names of bakers at a fair in 2014?")}
    link = ask(rendered("forward_link", **asked, max_columns_per_table=15, hints=["market.District"]))
    assert {"baker", "fair", "baker_at_fair", "market"} == {*link["tables"]}
    assert {"baker.Name", "fair.Year", "baker_at_fair.Fair_ID", "market.District"} <= {*link["columns"]}


def test_the_other_replies() -> None:
    assert ask(rendered("augmentation_keywords", **ASKED)) == {"sql_keywords": ["SELECT", "WHERE"]}
    assert ask(rendered("augmentation_conditions", **ASKED)) == {"conditions": ["from Kettle"]}
    described = ask(rendered("describe_columns", table="baker", columns=["`Home Town`", "Age"], parts=PARTS))
    assert described["descriptions"] == {
        "Home Town": "The Home Town, such as Millford, Kettle.",
        "Age": "The Age, such as 52, 41, 29.",
    }
    aligned = ask(rendered("entity_linking", **ASKED, sql=""))["alignment"]
    words = {entry["token"]: entry["schema"] for entry in aligned}
    assert (words["names"], words["bakers"], words["of"]) == ("baker.Name", "baker", None)
    assert ask(rendered("skeleton_parsing", **ASKED)) == {"sql": "SELECT a FROM t WHERE a = 'Kettle'"}


def test_text_replies_of_sea_sql() -> None:
    zero_shot = prompts.render("zero_shot_sql", **ASKED, demonstrations=[], demonstrations_first=False)
    assert _text((Message("user", zero_shot),)) == sql_for(KETTLE).removeprefix("SELECT ")
    mistakes = [Mistake(1, NO_COLUMN.sql, NO_COLUMN.result)]
    reflection = _text(rendered("execution_reflection", **ASKED, mistakes=mistakes))
    assert reflection == "The database says: no such column: Nam."
    for candidate, repeated in ((GOOD, True), (NO_COLUMN, False)):
        body = prompts.render("bias_elimination", "input", **ASKED, candidate=candidate)
        text = prompts.render("bias_elimination", instruction="Judge.", input=body)
        assert (_text((Message("user", text),)) == candidate.sql) is repeated


def test_an_agent_reads_tables_and_columns_then_runs_corrects_and_submits() -> None:
    tools = (Tool("run_sql", "Runs a query.", {}), Tool("submit", "Ends.", {}))
    results = {"tables": "baker(Baker_ID, Name)", "columns": PARTS.schema}
    messages: tuple[Message, ...] = rendered("agent", **(ASKED | {"parts": None}), sql="", tools=())
    names: list[str] = []
    for _ in range(5):
        reply = asyncio.run(OfflineBackbone().complete(Request(messages, tools=tools)))
        names += [call.name for call in reply.calls]
        failed = "Error: no such column: x"
        calls = tuple(replace(call, result=results.get(call.name, failed)) for call in reply.calls)
        messages = (*messages, Message("assistant", "", calls=calls))
        results["run_sql"] = "Name\nBen Spelt" if "run_sql" in names else results.get("run_sql", "")
    assert names[:3] == ["tables", "columns", "run_sql"] and names[-1] == "submit"


@pytest.mark.slow
@given(st.text(max_size=300), st.text(max_size=100), st.sampled_from([SCHEMA, "", "# `a`(``)", "SELECT"]))
@settings(max_examples=300, deadline=None)
def test_any_text_is_answered(text: str, evidence: str, schema: str) -> None:
    for template in ("preliminary_sql", "forward_link", "entity_linking", "augmentation_conditions"):
        asked = {"question": question(text, evidence), "dialect": "SQLite", "parts": PromptParts(schema)}
        others = {"linked_tables": [], "linked_columns": [], "sql": text, "max_columns_per_table": 3}
        assert isinstance(ask(rendered(template, **asked, **others)), dict)


def test_an_empty_or_odd_question_and_one_without_a_schema_are_answered_without_an_exception() -> None:
    for text in ("", "   ", "???", "### Question", "'", '"', "How many " * 500, "\x00\ud7ff"):
        assert isinstance(sql_for(text), str), text
    assert ask(preliminary("How many bakers are there?", parts=PromptParts(""))) == {"sql": ""}


@pytest.mark.slow
def test_replies_do_not_depend_on_the_process() -> None:
    code = (
        "from tests.tasks.backbone.offline.prompts import *\n"
        "q = 'Which names, titles and markets of Kettle had the most fairs in 2014?'\n"
        "link = prompts.messages('forward_link', question=question(q), dialect='SQLite', parts=PARTS,"
        " max_columns_per_table=3, hints=[])\n"
        "print(sql_for(q), ask(link))"
    )
    outputs = set()
    for seed in ("0", "1"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        outputs.add(subprocess.check_output([sys.executable, "-c", code], env=environment, text=True))
    assert len(outputs) == 1 and "SELECT" in outputs.pop()


def test_a_call_has_no_tokens_and_no_cost_and_depends_on_messages_and_keys_only() -> None:
    backbone = OfflineBackbone()
    request = Request(preliminary("How many bakers are there?"))
    reply = asyncio.run(backbone.complete(request))
    assert reply.call.usage == Usage(input=0, cached_input=0, output=0, reasoning=0)
    assert (reply.call.cost_usd, reply.call.model, reply.call.cached) == (0.0, "offline", False)
    assert reply.call.request == request_key(backbone.identity, request)
    schema = {"type": "object", "properties": {"sql": {"type": "string"}}}
    other = Request(request.messages, schema=schema, temperature=1.0, sample=3)
    assert asyncio.run(backbone.complete(other)).text == reply.text


def test_nothing_is_read_from_files_or_the_network() -> None:
    request = Request(preliminary("Which market had the most fairs?"))
    asyncio.run(OfflineBackbone().complete(request))  # imports are over
    seen: list[str] = []

    def audit(event: str, _: object) -> None:
        if watching and event.split(".")[0] in ("open", "socket", "subprocess", "sqlite3", "os"):
            seen.append(event)

    watching = False
    sys.addaudithook(audit)
    complete = OfflineBackbone().complete(request)
    watching = True
    with pytest.raises(StopIteration) as stopped:
        complete.send(None)
    watching = False
    assert "SELECT" in stopped.value.value.text
    assert seen == []


LETTERS = "abcdefghijklmnopqrstuvwxy"


def test_a_schema_of_three_thousand_columns_is_answered_in_seconds() -> None:
    names = [f"{word}{letter}" for word in ("amber", "birch", "cedar", "delta") for letter in LETTERS]
    columns = [", ".join(f"`{other}_{name}`" for other in names[:29]) for name in names]
    schema = "\n".join(f"# `{name}`({each}, `name`)" for name, each in zip(names, columns, strict=True))
    messages = preliminary("List the name of every cedarq.", parts=PromptParts(schema))
    started = time.process_time()
    assert ask(messages)["sql"] == "SELECT name FROM cedarq"
    assert time.process_time() - started < 5


def _text(messages: tuple[Message, ...]) -> str:
    return asyncio.run(OfflineBackbone().complete(Request(messages))).text

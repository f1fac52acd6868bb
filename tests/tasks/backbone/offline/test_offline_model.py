"""The offline backbone behind the interface of every backbone: same messages, same reply, whatever comes."""

import asyncio
import json
import os
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.offline.model import answer
from tasks.backbone.offline.prompt.sections import Task, task_of
from tasks.backbone.protocol import Message, Request, request_key
from tasks.core.outcome import Usage
from tasks.database.rendering import PromptParts
from tests.tasks.backbone.offline.prompts import FOREIGN_KEYS, SAMPLES, SCHEMA, ask, preliminary, sql_for

KEYS = {"sql", "tables", "columns", "sql_keywords", "conditions", "descriptions", "alignment"}
FREE_TEXT = (Task.CONTINUATION, Task.ELIMINATION, Task.REFLECTION)
HEADINGS = [
    "Examples", "Task", "Schema", "Sample rows", "Foreign keys", "Column descriptions", "Linked tables", "Reply",
    "Linked columns", "Evidence", "Question", "SQL 1", "Result of SQL 1", "SQL 2", "SQL 99999", "Columns to describe",
]  # fmt: skip
BODIES = st.one_of(
    st.text(max_size=120),
    st.sampled_from(
        [SCHEMA, SAMPLES, FOREIGN_KEYS, "", "Question: x\nSQL: SELECT 1", 'the keys "tables" and "columns"']
    ),
    st.sampled_from(
        ["How many bakers?", "names of the oldest 0 bakers", "x refers to (((((", "DIVIDE(DIVIDE(Age, 0), )"]
    ),
    st.sampled_from(['"sql_keywords"', '"conditions"', '"descriptions"']),
    st.sampled_from(["SELECT", "# `a`(``)", "# `a`.`b` -> `c`.`d`"]),
)
SECTIONED = st.lists(st.tuples(st.sampled_from(HEADINGS), BODIES), max_size=8).map(
    lambda parts: "\n".join(f"### {heading}\n{body}\n" for heading, body in parts)
)
CONVERSATIONS = st.lists(
    st.builds(
        Message, st.sampled_from(["system", "user", "assistant"]), st.one_of(SECTIONED, st.text(max_size=200))
    ),
    min_size=1,
    max_size=4,
).map(tuple)


@pytest.mark.slow
@given(CONVERSATIONS)
@settings(max_examples=300, deadline=None)
def test_any_text_gets_a_reply_in_a_known_format(messages: tuple[Message, ...]) -> None:
    if task_of(Request(messages)) in FREE_TEXT:
        assert isinstance(answer(Request(messages)), str)
        return
    reply = ask(messages)
    assert reply and set(reply) <= KEYS
    if "sql" in reply:
        assert isinstance(reply["sql"], str)


@pytest.mark.slow
@given(st.text(max_size=300), st.text(max_size=100))
@settings(max_examples=200, deadline=None)
def test_any_question_over_a_real_schema_gets_sql(text: str, evidence: str) -> None:
    messages = preliminary("Q", "E")
    hostile = Message(
        "user", messages[1].content.replace("\nQ\n", f"\n{text}\n").replace("\nE\n", f"\n{evidence}\n")
    )
    assert isinstance(ask((messages[0], hostile))["sql"], str)


@pytest.mark.parametrize(
    "text", ["", "   ", "???", "### Question", "'", '"', "How many " * 500, "\x00\ud7ff"]
)
def test_an_empty_or_odd_question_is_answered_without_an_exception(text: str) -> None:
    assert isinstance(sql_for(text), str)


def test_without_a_schema_the_answer_is_honestly_empty() -> None:
    bare = preliminary("How many bakers are there?", parts=PromptParts(""))
    assert ask(bare) == {"sql": ""}


@pytest.mark.slow
def test_replies_do_not_depend_on_the_process() -> None:
    code = (
        "import json\n"
        "from tests.tasks.backbone.offline.prompts import *\n"
        "names = ['How many bakers from Kettle or North are there in each market?', 'names of bakers in 2014 and 2015',"
        " 'Which name, title and market have most fairs?']\n"
        "link = lambda q: prompts.messages('forward_link', question=question(q), dialect='SQLite', parts=PARTS,"
        " max_columns_per_table=3, hints=[])\n"
        "print(json.dumps([[sql_for(q), ask(link(q))] for q in names]))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4242")
    }
    assert len(outputs) == 1
    assert len(json.loads(outputs.pop())) == 3


def test_only_the_messages_and_the_keys_of_the_reply_count() -> None:
    messages = preliminary("How many bakers are there?")
    backbone = OfflineBackbone()
    plain = asyncio.run(backbone.complete(Request(messages)))
    keys = {"type": "object", "properties": {"sql": {"type": "string"}}}
    for schema in (keys, {"type": "object"}, {}):
        other = asyncio.run(backbone.complete(Request(messages, schema=schema, temperature=1.0, sample=3)))
        assert plain.text == other.text
    link = {"type": "object", "properties": {"tables": {}, "columns": {}}}
    asked = asyncio.run(backbone.complete(Request(messages, schema=link)))
    assert set(json.loads(asked.text)) == {"tables", "columns"}


def test_rules_have_no_tokens_and_cost_nothing() -> None:
    backbone = OfflineBackbone()
    request = Request(preliminary("How many bakers are there?"))
    call = asyncio.run(backbone.complete(request)).call
    assert call.model == "offline" and not call.cached
    assert call.cost_usd == 0.0
    assert call.usage == Usage(input=0, cached_input=0, output=0, reasoning=0)
    assert call.request == request_key(backbone.identity, request)


def test_its_identity_is_plain_json_with_a_version() -> None:
    identity = OfflineBackbone().identity
    assert json.loads(json.dumps(dict(identity))) == identity
    assert identity["kind"] == "offline" and isinstance(identity["version"], int)


def test_nothing_is_read_from_files_or_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = preliminary("Which market had the most fairs?")
    request = Request(messages)
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


def test_a_schema_of_three_thousand_columns_is_answered_in_seconds() -> None:
    words = [
        left + right
        for left in ("amber", "birch", "cedar", "delta", "ember")
        for right in "abcdefghijklmnopqrst"
    ]
    schema = "\n".join(
        f"# `{word}`({', '.join(f'`{other}_{word}`' for other in words[:29])}, `name`)" for word in words
    )
    messages = preliminary("List the name of every cedarq.", parts=PromptParts(schema))
    ask(messages)
    started = time.process_time()
    reply = ask(messages)
    assert time.process_time() - started < 5
    assert reply["sql"] == "SELECT name FROM cedarq"

"""What every stage makes of good replies, and of every kind of bad one: never an exception, always a note."""

import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tasks.backbone.replies.json_text import reply_schema
from tasks.core.errors import ConfigurationError
from tasks.core.records import Answer, Augmentation, ColumnName, Correction, FewShotQuestion, Link, Selection
from tasks.database.database import Database
from tasks.database.schema_text import SchemaView
from tasks.settings.home import find_conf
from tasks.settings.load import load_pipeline_settings
from tasks.stages.columns import describe_columns
from tasks.stages.dac_entities import AlignmentReply
from tasks.stages.links import hinted_link
from tasks.stages.native_sql import read_native
from tasks.stages.replies import (
    ConditionsReply,
    DescriptionsReply,
    KeywordsReply,
    LinkReply,
    SqlReply,
    StageReply,
)
from tasks.stages.rsl_sql import (
    augmentation_conditions,
    augmentation_elements,
    augmentation_keywords,
    augmentation_together,
    augmented_sql,
    forward_link,
    preliminary_sql,
)
from tests.support.fake_openai import out_of_tokens, reply
from tests.support.prompt_cases import native
from tests.support.stage_bench import QUESTION, Bench, sql_reply

PLAIN_ASKED = FewShotQuestion(QUESTION)
NAMES, OTHER, FAILING = "SELECT name FROM museum", "SELECT city FROM museum", "SELECT nam FROM museum"
HINTED = Link(("museum",), (ColumnName("museum", "city"),))
"""What the evidence alone links: `city` is a substring of it."""

STAGES: dict[str, Callable[[Bench], Awaitable[Any]]] = {
    "forward_link": lambda b: forward_link(QUESTION, SchemaView(b.schema), 15, None, b.backbone),
    "preliminary_sql": lambda b: preliminary_sql(PLAIN_ASKED, SchemaView(b.schema), None, b.backbone),
    "augmentation_elements": lambda b: augmentation_elements(
        QUESTION, SchemaView(b.schema, descriptions=True), 15, b.backbone
    ),
    "augmentation_keywords": lambda b: augmentation_keywords(
        QUESTION, SchemaView(b.schema, descriptions=True), b.backbone
    ),
    "augmentation_conditions": lambda b: augmentation_conditions(QUESTION, b.backbone),
    "augmentation_together": lambda b: augmentation_together(
        QUESTION, SchemaView(b.schema), ("elements", "conditions"), 15, b.backbone
    ),
    "augmented_sql": lambda b: augmented_sql(
        PLAIN_ASKED, SchemaView(b.schema, descriptions=True), Augmentation(), b.backbone
    ),
    "binary_selection": lambda b: b.select(NAMES, OTHER),
    "self_correction": lambda b: b.correct(FAILING, rounds=1),
    "describe_columns": lambda b: describe_columns(
        SchemaView(b.schema, descriptions=True).reduced_to(HINTED), "museum", ("city",), b.backbone
    ),
}
OURS = {"binary_selection", "self_correction"}
"""Those whose helper starts a question run itself."""

GOOD: dict[str, tuple[str, Any]] = {
    "forward_link": (
        '{"tables": ["MUSEUM"], "columns": ["museum.name", "`order`.`total.eur`"]}',
        Link(
            ("museum", "order"),
            (ColumnName("museum", "name"), ColumnName("order", "total.eur")),
        ),
    ),
    "preliminary_sql": (sql_reply(f"{NAMES};"), Answer(NAMES)),
    "augmentation_elements": (
        '{"tables": [], "columns": ["guide.language"]}',
        Link(("guide",), (ColumnName("guide", "language"),)),
    ),
    "augmentation_keywords": ('{"sql_keywords": ["COUNT", "ORDER  BY", "", "COUNT"]}', ("COUNT", "ORDER BY")),
    "augmentation_conditions": (
        '{"conditions": ["of Lyon\\n", "sold something"]}',
        ("of Lyon", "sold something"),
    ),
    "augmentation_together": (
        '{"tables": ["guide"], "sql_keywords": ["COUNT"], "conditions": [" of  Lyon"]}',
        Augmentation(Link(("guide",)), None, ("of Lyon",)),
    ),
    "augmented_sql": (sql_reply(NAMES), Answer(NAMES)),
    "binary_selection": (sql_reply(OTHER), Selection(OTHER, "second", "backbone")),
    "self_correction": (sql_reply(NAMES), Correction(NAMES, 1, "error", "ok")),
    "describe_columns": ('{"descriptions": {"City": " The  city. "}}', {"city": "The city."}),
}
FALLBACK: dict[str, Any] = {
    "forward_link": Link(),
    "preliminary_sql": Answer(None, "the reply could not be read"),
    "augmentation_elements": Link(),
    "augmentation_keywords": (),
    "augmentation_conditions": (),
    "augmentation_together": Augmentation(Link(), None, ()),
    "augmented_sql": Answer(None, "the reply could not be read"),
    "binary_selection": Selection(OTHER, "second", "default"),
    "self_correction": Correction(FAILING, 1, "error", "error"),
    "describe_columns": {},
}
BAD = {
    "nothing": "",
    "prose": "I am sorry, I cannot help with that.",
    "another object": '{"thoughts": "hm", "confidence": 3}',
    "empty object": "{}",
    "null": "null",
    "number": "42",
    "null in the right keys' place": '{"sql": null, "sql_keywords": 1, "conditions": 7, "descriptions": null}',
    "a list of lists": "[[1, 2], [3]]",
    "broken off before it began": '{"',
    "only a fence": "```json\n```",
    "a deep nest": "[" * 3000,
    "half a character": '{"x": "\\ud83d"}',
}


async def run(bench: Bench, stage: str) -> Any:
    call = STAGES[stage](bench)
    return await (call if stage in OURS else bench.run(call))


WRAPPED = (
    "%",
    "```json\n%\n```",
    "Sure, here it is:\n\n%\n\nHope this helps!",
    "<think>{}, or [1]?</think>%",
    "\ufeff%",
)


@pytest.mark.parametrize("stage", STAGES)
async def test_a_good_reply_is_read_whatever_stands_around_it(bench: Bench, stage: str) -> None:
    text, expected = GOOD[stage]
    for wrapped in WRAPPED:
        bench.says(wrapped.replace("%", text))
        assert await run(bench, stage) == expected, wrapped
    assert len(bench.server.requests) == len(WRAPPED)
    assert bench.notes == ()


SPACED = """WITH m AS (
  SELECT [id], name FROM museum
),

o AS (
  SELECT museum_id FROM "order"
)

SELECT m.name
FROM m

JOIN o ON o.museum_id = m.id"""


@pytest.mark.parametrize(
    "text", [sql_reply(SPACED), f"Joined.\n```sql\n{SPACED};\n```", f"{SPACED}\n\nIn m are museums."]
)
async def test_a_query_with_blank_lines_and_brackets_is_read_whole_and_runs(bench: Bench, text: str) -> None:
    bench.says(text)
    assert await run(bench, "preliminary_sql") == Answer(SPACED)
    assert len(bench.server.requests) == 1
    assert (await bench.runner.run(SPACED)).row_count == 3


@pytest.mark.parametrize("stage", STAGES)
async def test_a_bad_reply_is_asked_for_again_and_then_noted_and_done_without(
    bench: Bench, stage: str
) -> None:
    for kind, text in BAD.items():
        bench.server.always(reply(text))
        bench.server.requests.clear()
        assert await run(bench, stage) == FALLBACK[stage], kind
        assert len(bench.server.requests) == 2, kind
        assert any("twice" in note for note in bench.records[-1].notes), kind


@pytest.mark.parametrize("stage", STAGES)
async def test_a_bad_reply_is_mended_by_a_good_one(bench: Bench, stage: str) -> None:
    text, expected = GOOD[stage]
    bench.says(BAD["prose"], text)
    assert await run(bench, stage) == expected
    assert bench.notes == ()
    assert [call.parse for call in bench.records[0].calls] == ["failed", "json"]


@pytest.mark.parametrize(("stage", "text", "expected"), [
    ("forward_link", '{"tables": ["museum", "ord', Link(("museum",), (), ("ord",))),
    ("preliminary_sql", '{"sql": "SELECT name FROM museum', Answer(NAMES)),
    ("augmentation_keywords", '{"sql_keywords": ["COUNT", "MA', ("COUNT", "MA")),
    ("describe_columns", '{"descriptions": {"city": "The ci', {"city": "The ci"}),
])  # fmt: skip
async def test_a_reply_cut_off_at_the_token_limit_is_used_as_far_as_it_goes_and_noted(
    bench: Bench, stage: str, text: str, expected: object
) -> None:
    bench.server.script(out_of_tokens(text))
    assert await run(bench, stage) == expected
    assert "reply cut off at the token limit" in bench.notes


@pytest.mark.parametrize("stage", ["preliminary_sql", "augmented_sql"])
@pytest.mark.parametrize("text", [sql_reply(""), sql_reply("  ;  "), '{"sql": "-- I do not know"}'])
async def test_a_reply_without_a_statement_is_an_answer_without_sql_and_a_note(
    bench: Bench, stage: str, text: str
) -> None:
    bench.says(text)
    assert await run(bench, stage) == Answer(None, "the reply held no SQL")
    assert any("no SQL in the reply" in note for note in bench.notes)


async def test_half_a_character_in_a_query_goes_no_further(bench: Bench) -> None:
    bench.says('{"sql": "SELECT \'\\ud83d\' FROM museum"}')
    assert await run(bench, "preliminary_sql") == Answer("SELECT '?' FROM museum")


@pytest.mark.parametrize(("text", "linked"), [
    ('{"tables": ["museum"]}', ()),
    ('{"tables": "museum, order", "columns": "guide.language, order.id"}', ("order.id", "guide.language")),
    ('{"columns": {"order": ["id", "total.eur"]}}', ("order.id", "order.total.eur")),
    ('{"columns": [{"table": "order", "column": "id"}]}', ("order.id",)),
    ('{"tables": null, "columns": null}', ()),
])  # fmt: skip
async def test_a_link_is_read_in_the_forms_that_models_give_it(
    bench: Bench, text: str, linked: tuple[str, ...]
) -> None:
    bench.says(text)
    link = await run(bench, "augmentation_elements")
    assert tuple(str(column) for column in link.columns) == linked
    assert link.dropped == ()


@pytest.mark.parametrize("stage", ["forward_link", "augmentation_elements"])
async def test_invented_names_are_dropped_and_noted(bench: Bench, stage: str) -> None:
    bench.says('{"tables": ["shops"], "columns": ["museum.name", "museum.size", "total"]}')
    link = await run(bench, stage)
    assert link.dropped == ("shops", "museum.size", "total")
    assert any("shops, museum.size, total" in note for note in bench.notes)


async def test_elements_are_names_of_the_reduced_schema_only(bench: Bench) -> None:
    bench.says('{"tables": ["museum", "guide"], "columns": ["museum.city", "museum.name"]}')
    link = await bench.run(
        augmentation_elements(QUESTION, SchemaView(bench.schema).reduced_to(HINTED), 15, bench.backbone)
    )
    assert link == Link(("museum",), HINTED.columns, ("guide", "museum.name"))


@pytest.mark.parametrize(("source", "found"), [
    ("evidence", ["museum.city"]),
    ("question", ["museum.name"]),
    ("both", ["museum.name", "museum.city"]),
    ("none", []),
])  # fmt: skip
def test_hints_are_looked_for_where_the_settings_say(museum: Database, source: Any, found: list[str]) -> None:
    asked = type(QUESTION)("1", "Their NAMES, please", "museum", evidence="by City")
    link = hinted_link(asked, museum.schema, source)
    assert [str(column) for column in link.columns] == found


async def test_descriptions_are_matched_to_columns_however_their_names_are_written(bench: Bench) -> None:
    bench.says(
        '{"descriptions": {"ORDER.TOTAL.EUR": "Money.", "`no``te`": "A  note\\nof it.", "id": null, "colour": "Red."}}'
    )
    alone = replace(bench.schema, tables=tuple(t for t in bench.schema.tables if t.name == "order"))
    wanted = ("total.eur", "no`te", "id", "museum_id")
    found = await bench.run(describe_columns(SchemaView(alone), "order", wanted, bench.backbone))
    assert found == {"total.eur": "Money.", "no`te": "A note of it."}
    assert "not described: id, museum_id" in bench.notes


SCHEMAS = {
    SqlReply: "dbde159fb2eb03d0",
    LinkReply: "e2feea538a39e1fa",
    KeywordsReply: "19d9dd58b32ae779",
    ConditionsReply: "036a3ae8f6980aa5",
    DescriptionsReply: "7912f81ed1f1256a",
    AlignmentReply: "e7b86739a124fc32",
}


@pytest.mark.parametrize("kind", SCHEMAS, ids=lambda kind: kind.__name__)
def test_the_schema_of_a_reply_is_what_it_was_because_paid_replies_are_found_by_it(
    kind: type[StageReply],
) -> None:
    text = json.dumps(reply_schema(kind), sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == SCHEMAS[kind], (
        "a reply's fields and docstrings are part of the request: this change makes every cached reply unfindable"
    )


@pytest.mark.parametrize(("reply", "sql"), [
    ("Steps.\n```sql\nSELECT 1\n```\nNo: \n```sql\nSELECT a FROM t;\n```", "SELECT a FROM t"),
    ("<answer> in short\n\n```sql\nSELECT a FROM t\n```\n</answer>", "SELECT a FROM t"),
    ("```sql\nSELECT 0\n```\n<answer>SELECT a FROM t</answer>", "SELECT a FROM t"),
    ("<answer>\n```sql\nSELECT a FROM t", "SELECT a FROM t"),
    ("SELECT a\nFROM t;\n```", "SELECT a\nFROM t"),
    ('{"sql": "SELECT a FROM t"}', "SELECT a FROM t"),
    ("I cannot tell.", None),
    ("", None),
])  # fmt: skip
def test_a_reply_is_read_in_every_form_that_the_layouts_ask_for(reply: str, sql: str | None) -> None:
    assert read_native(reply) == sql


async def test_thoughts_are_not_the_answer_and_a_reply_without_sql_is_asked_for_again(bench: Bench) -> None:
    bench.says(
        "<think>```sql\nSELECT 0\n```</think> hm", "<think>so</think><answer>SELECT name FROM museum</answer>"
    )
    answer = await bench.run(native("arctic")(bench))
    assert answer.sql == "SELECT name FROM museum"
    assert len(bench.conversations) == 2
    assert [message["role"] for message in bench.conversations[-1]] == ["system", "user"]


def test_a_layout_brings_its_schema_format_unless_one_is_named_and_no_demonstrations() -> None:
    def shown(*overrides: str) -> str:
        return load_pipeline_settings(find_conf(), "native", overrides).prompt.schema_format

    assert (shown(), shown("pipeline.prompt.layout=arctic")) == ("omnisql", "omnisql")
    assert shown("pipeline.prompt.layout=xiyan") == "m_schema"
    assert shown("pipeline.prompt.layout=xiyan", "pipeline.prompt.schema_format=comment") == "comment"
    stored = load_pipeline_settings(find_conf(), "native", ("pipeline.prompt.layout=xiyan",))
    assert type(stored).model_validate_json(stored.model_dump_json()) == stored
    with pytest.raises(ConfigurationError, match="less than or equal to 0, not 3"):
        load_pipeline_settings(find_conf(), "native", ("pipeline.demonstrations.k=3",))

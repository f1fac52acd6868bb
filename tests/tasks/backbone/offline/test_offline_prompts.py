"""Every shipped prompt, rendered: the keys of its reply are read, and the offline model knows all its headings."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pydantic import BaseModel

from tasks.backbone.offline.model import JSON_VALUES
from tasks.backbone.offline.prompt import Heading, keys_of, read_prompt, read_schema, sections_of
from tasks.backbone.protocol import Message, Request, Tool
from tasks.backbone.replies.json_text import reply_schema
from tasks.core.records import ColumnName, Demonstration
from tasks.database.schema import Column, ForeignKey, Schema, Table
from tasks.database.schema_text import PromptParts
from tasks.settings.home import CHECKOUT
from tasks.settings.pipeline import SchemaFormat
from tasks.stages import prompts
from tasks.stages.dac import ShownExample
from tasks.stages.dac_entities import AlignmentReply
from tasks.stages.replies import (
    AugmentationReply,
    BetterReply,
    ConditionsReply,
    DescriptionsReply,
    KeywordsReply,
    LinkReply,
    SqlReply,
)
from tasks.stages.schema_prompt import ExecutedSql
from tasks.stages.sea_sql import Mistake
from tests.support.stage_bench import render
from tests.tasks.backbone.offline.prompts import FOREIGN_KEYS, SAMPLES, SCHEMA, question

NUMBERED = ("sql", "result of sql", "reason")
"""Headings that are followed by a number: queries that were tried, their results, and why they failed."""

IGNORED = ("task", "examples", "keywords that may be needed", "linked tables",
           "conditions in the question", "alignment", "instruction", "input")  # fmt: skip
"""Headings that are passed over: the model wrote their content itself, or there is nothing to read in them."""

QUESTION = question("What are the names of bakers from Kettle?", "Kettle refers to `Home Town` = 'Kettle'")
PARTS = PromptParts(SCHEMA, SAMPLES, FOREIGN_KEYS, "# `baker`.`Age`: in years", sampled=True)
TRIED = ExecutedSql("SELECT Nam FROM baker", "Error: no such column: Nam")
MISTAKES = [Mistake(1, TRIED.sql, TRIED.result, "no such name"), Mistake(2, TRIED.sql, TRIED.result, "again")]
EXAMPLES = [ShownExample("How many?", "SELECT 1", "CREATE TABLE a (b INTEGER);", '{"alignment": []}', "hint")]
EVERYTHING = {
    "question": QUESTION, "dialect": "SQLite", "parts": PARTS, "demonstrations": [Demonstration("Q?", "SELECT 1", "d")],
    "linked_tables": ["baker"], "linked_columns": ["baker.Name"], "keywords": ["SELECT"], "conditions": ["from Kettle"],
    "candidates": [TRIED, TRIED], "current": TRIED, "mistakes": MISTAKES, "examples": EXAMPLES, "sql": TRIED.sql,
    "alignment": ["a"], "missing": ["the column baker.Name"], "kind": "entities", "error": "", "skeleton": "",
    "table": "baker", "columns": ["Age"], "hints": ["baker.Age"], "parts_on": ["elements", "keywords"],
    "keys": '"tables", "columns", "sql_keywords", "conditions"', "max_columns_per_table": 15, "candidate": TRIED,
    "strict": False, "demonstrations_first": False, "empty_counts": True, "votes": [5, 1], "rules": "all",
    "tools": [Tool("tables", "Names the tables.", {"properties": {}, "required": []})], "reduced": True,
}  # fmt: skip


Holds = Callable[[Any], object] | None
SHIPPED: dict[str, tuple[type[BaseModel] | None, Holds]] = {
    "agent": (None, lambda prompt: prompt.current_sql),
    "preliminary_sql": (SqlReply, lambda prompt: prompt.linked),
    "augmented_sql": (SqlReply, lambda prompt: prompt.linked and prompt.schema.heads),
    "initial_sql": (SqlReply, None),
    "zero_shot_sql": (None, None),
    "binary_selection": (SqlReply, lambda prompt: len(prompt.attempts) == 2 and prompt.selects),
    "compare_candidates": (BetterReply, lambda prompt: len(prompt.attempts) == 2),
    "merge_candidates": (SqlReply, lambda prompt: len(prompt.attempts) == 2 and prompt.selects),
    "self_correction": (SqlReply, lambda prompt: len(prompt.attempts) == 1),
    "execution_correction": (SqlReply, lambda prompt: len(prompt.attempts) == 2 and not prompt.selects),
    "execution_reflection": (None, lambda prompt: len(prompt.attempts) == 2),
    "bias_elimination": (None, lambda prompt: len(prompt.attempts) == 1),
    "dac_correction": (SqlReply, lambda prompt: prompt.current_sql and prompt.feedback),
    "skeleton_parsing": (SqlReply, None),
    "forward_link": (LinkReply, lambda prompt: list(map(str, prompt.linked)) == ["baker.Age"]),
    "augmentation_keywords": (KeywordsReply, None),
    "augmentation_together": (AugmentationReply, None),
    "augmentation_conditions": (ConditionsReply, None),
    "describe_columns": (DescriptionsReply, lambda prompt: prompt.described == ("Age",)),
    "entity_linking": (AlignmentReply, None),
    "native_omnisql": (None, None),
    "native_arctic": (None, None),
    "native_xiyan": (None, None),
}
"""The reply that a shipped prompt asks for, and what is read in it besides question and evidence."""
WITHOUT_SCHEMA = ("augmentation_conditions", "skeleton_parsing")
SAID = {"augmentation_conditions": (QUESTION.text, ""), "describe_columns": ("", "")}
"""Question and evidence of prompts that have not both."""
UNANSWERED = {"opinion"}
"""Prompts that the offline model does not answer: an opinion needs a model."""


def bakery() -> Schema:
    """The database of the other prompts, for the formats that the native layouts show it in."""
    read = read_schema(SCHEMA, SAMPLES, FOREIGN_KEYS, dialect="sqlite")
    columns: dict[str, list[Column]] = {table: [] for table in read.tables}
    for name, samples in read.samples.items():
        columns[name.table].append(Column(name.column, "TEXT", samples=tuple(samples)))
    tables = (Table(table, tuple(each)) for table, each in columns.items())
    joins = ((join.child, join.parent) for join in read.joins)
    keys = (ForeignKey(one.table, (one.column,), other.table, (other.column,)) for one, other in joins)
    return Schema("bakery", tuple(tables), tuple(keys), dialect="sqlite")


NATIVE: Mapping[str, SchemaFormat] = {
    "native_omnisql": "omnisql", "native_arctic": "omnisql", "native_xiyan": "m_schema",
}  # fmt: skip
NAMES = sorted({path.stem for path in (CHECKOUT / "conf" / "prompts").glob("[!_]*.jinja")} - UNANSWERED)


def rendered(name: str) -> Sequence[Message]:
    """Return a shipped prompt with every section that it can have."""
    if name == "bias_elimination":
        blocks = {block: prompts.render(name, block, **EVERYTHING) for block in ("instruction", "input")}
        return (Message("user", prompts.render(name, **blocks)),)
    given = dict(EVERYTHING)
    if name in NATIVE:
        shown = render(bakery(), NATIVE[name], sample_rows=3, foreign_keys=True, descriptions=True)
        given["parts"] = shown
    return (Message("user", prompts.render(name, **given)),)


@pytest.mark.parametrize("name", NAMES)
def test_every_heading_of_a_shipped_prompt_is_known_to_the_offline_model(name: str) -> None:
    known = {*Heading, *IGNORED, *(f"{heading} n" for heading in NUMBERED)}
    headings = re.findall(r"^### +(.+?)\s*$", rendered(name)[-1].content, re.MULTILINE)
    unknown = {heading for heading in headings if re.sub(r"\d+$", "n", heading.lower()) not in known}
    assert not unknown, (
        f"conf/prompts/{name}.jinja has the headings {sorted(unknown)}, which the offline model does not know: "
        "declare them in tasks/backbone/offline/prompt.py, in Heading, or here in NUMBERED or IGNORED"
    )


def test_every_template_is_a_prompt_that_offline_answers_or_does_not() -> None:
    assert set(NAMES) == SHIPPED.keys()


@pytest.mark.parametrize("name", SHIPPED)
def test_the_keys_of_the_reply_are_read_from_the_schema_and_from_the_prompt(name: str) -> None:
    reply, _ = SHIPPED[name]
    messages = rendered(name)
    sections = sections_of(messages)
    in_the_prompt = {*keys_of(Request(tuple(messages)), sections)}
    if reply is None:
        assert not in_the_prompt & {*JSON_VALUES}
        return
    assert {*reply.model_fields} <= in_the_prompt
    request = Request(tuple(messages), reply_schema(reply))
    assert {*reply.model_fields} <= {*keys_of(request, sections)} <= {*JSON_VALUES}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_sections_of_a_shipped_prompt_are_read(name: str) -> None:
    prompt = read_prompt(rendered(name))
    assert (prompt.question, prompt.evidence) == SAID.get(name, (QUESTION.text, QUESTION.evidence))
    _, holds = SHIPPED[name]
    assert holds is None or holds(prompt), f"a section of conf/prompts/{name}.jinja is not read: {prompt}"
    if name not in WITHOUT_SCHEMA:
        assert prompt.schema.samples[ColumnName("baker", "Home Town")] == ["Millford", "Kettle", "Kettle"]
        assert len(prompt.schema.joins) == 3

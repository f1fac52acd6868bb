"""Every shipped prompt, rendered: the keys of its reply are read, and the offline model knows all its headings."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from tasks.backbone.offline.model import ANSWERED
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
from tests.support.schema_text import render
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
    "keys": '"tables", "columns", "sql_keywords"', "max_columns_per_table": 15, "candidate": TRIED,
    "strict": False, "demonstrations_first": False, "empty_counts": True, "votes": [5, 1], "rules": "all",
    "tools": [Tool("tables", "Names the tables.", {"properties": {}, "required": []})], "reduced": True,
}  # fmt: skip


class AlignmentReply(BaseModel):
    """The keys of an alignment; the stage reads it by hand."""

    alignment: list[dict[str, str | None]]


@dataclass(frozen=True)
class Shipped:
    """What the offline model must make of a shipped prompt."""

    keys: tuple[str, ...]  # keys of its reply that the section "Reply" names
    reply: type[BaseModel] | None
    holds: Callable[[Any], bool]


def has(**expected: Any) -> Callable[[Any], bool]:
    """Return a check of a read prompt: the question is read, and the given attributes are as expected."""

    def check(prompt: Any) -> bool:
        assert prompt.question == QUESTION.text
        return all(getattr(prompt, name) == value for name, value in expected.items())

    return check


ASKED = has(evidence=QUESTION.evidence)
SQL = ("sql",)
SHIPPED = {
    "agent": Shipped((), None, lambda p: ASKED(p) and p.current_sql),
    "preliminary_sql": Shipped(SQL, SqlReply, lambda p: ASKED(p) and p.linked),
    "augmented_sql": Shipped(SQL, SqlReply, lambda p: ASKED(p) and p.linked and p.schema.heads),
    "initial_sql": Shipped(SQL, SqlReply, ASKED),
    "zero_shot_sql": Shipped((), None, ASKED),
    "binary_selection": Shipped(SQL, SqlReply, lambda p: ASKED(p) and len(p.attempts) == 2 and p.selects),
    "compare_candidates": Shipped(("better",), BetterReply, lambda p: ASKED(p) and len(p.attempts) == 2),
    "merge_candidates": Shipped(SQL, SqlReply, lambda p: ASKED(p) and len(p.attempts) == 2 and p.selects),
    "self_correction": Shipped(SQL, SqlReply, lambda p: ASKED(p) and len(p.attempts) == 1),
    "execution_correction": Shipped(
        SQL, SqlReply, lambda p: ASKED(p) and len(p.attempts) == 2 and not p.selects
    ),
    "execution_reflection": Shipped((), None, lambda p: ASKED(p) and len(p.attempts) == 2),
    "bias_elimination": Shipped((), None, lambda p: ASKED(p) and len(p.attempts) == 1),
    "dac_correction": Shipped(SQL, SqlReply, lambda p: ASKED(p) and p.current_sql and p.feedback),
    "skeleton_parsing": Shipped(SQL, SqlReply, ASKED),
    "forward_link": Shipped(
        ("tables", "columns"), LinkReply, lambda p: ASKED(p) and list(map(str, p.linked)) == ["baker.Age"]
    ),
    "augmentation_keywords": Shipped(("sql_keywords",), KeywordsReply, ASKED),
    "augmentation_together": Shipped(("tables", "columns", "sql_keywords"), AugmentationReply, ASKED),
    "augmentation_conditions": Shipped(("conditions",), ConditionsReply, has()),
    "describe_columns": Shipped(("descriptions",), DescriptionsReply, lambda p: p.described == ("Age",)),
    "entity_linking": Shipped(("alignment",), AlignmentReply, ASKED),
    "native_omnisql": Shipped((), None, ASKED),
    "native_arctic": Shipped((), None, ASKED),
    "native_xiyan": Shipped((), None, ASKED),
}
WITHOUT_SCHEMA = ("augmentation_conditions", "skeleton_parsing")
UNANSWERED = {"opinion"}
"""Prompts that the offline model does not answer: an opinion needs a model."""


def bakery() -> Schema:
    """The database of the other prompts, for the formats that the native layouts show it in."""
    read = read_schema(SCHEMA, SAMPLES, FOREIGN_KEYS, dialect="sqlite")
    tables = (
        Table(
            table,
            tuple(
                Column(c.column, "TEXT", samples=tuple(read.samples[c]))
                for c in read.samples
                if c.table == table
            ),
        )
        for table in read.tables
    )
    keys = (
        ForeignKey(j.child.table, (j.child.column,), j.parent.table, (j.parent.column,)) for j in read.joins
    )
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


@pytest.mark.parametrize("name", SHIPPED)
def test_the_keys_of_the_reply_are_read_from_the_schema_and_from_the_prompt(name: str) -> None:
    shipped = SHIPPED[name]
    messages = rendered(name)
    sections = sections_of(messages)
    keys = keys_of(Request(tuple(messages)), sections)
    assert set(shipped.keys) <= set(keys)
    if shipped.reply:
        request = Request(tuple(messages), reply_schema(shipped.reply))
        assert set(shipped.keys) <= set(keys_of(request, sections)) <= set(ANSWERED)
    assert shipped.keys or not set(keys) & set(ANSWERED)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_sections_of_a_shipped_prompt_are_read(name: str) -> None:
    prompt = read_prompt(rendered(name))
    assert SHIPPED[name].holds(prompt), f"a section of conf/prompts/{name}.jinja is not read: {prompt}"
    if name not in WITHOUT_SCHEMA:
        assert prompt.schema.samples[ColumnName("baker", "Home Town")] == ["Millford", "Kettle", "Kettle"]
        assert len(prompt.schema.joins) == 3


def test_a_heading_that_is_renamed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    content = rendered("preliminary_sql")[-1].content.replace("### Schema", "### Database")
    monkeypatch.setitem(globals(), "rendered", lambda name: (Message("user", content),))
    with pytest.raises(AssertionError, match=r"preliminary_sql\.jinja has the headings \['Database'\]"):
        test_every_heading_of_a_shipped_prompt_is_known_to_the_offline_model("preliminary_sql")

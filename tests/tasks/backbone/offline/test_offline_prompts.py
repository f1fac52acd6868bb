"""Every shipped prompt, rendered: its task is recognised, and all its headings are known to the offline model."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from flows.judging.opinion import OpinionReply
from tasks.backbone.offline.prompt.reading import read_prompt
from tasks.backbone.offline.prompt.schema_text import read_schema
from tasks.backbone.offline.prompt.sections import Heading, Task, task_of
from tasks.backbone.protocol import Message, Request, Tool
from tasks.backbone.replies.json_schema import reply_schema
from tasks.core.records import Demonstration
from tasks.database.rendering import PromptParts, render
from tasks.database.schema import Column, ForeignKey, Schema, Table
from tasks.settings.home import CHECKOUT
from tasks.settings.pipeline import SchemaFormat
from tasks.stage_runs import prompts
from tasks.stages.dac.examples import ShownExample
from tasks.stages.replies import (
    AugmentationReply,
    BetterReply,
    ConditionsReply,
    DescriptionsReply,
    KeywordsReply,
    LinkReply,
    SqlReply,
)
from tasks.stages.sea_sql.execution_adjustment import Mistake
from tasks.stages.shown_results import ExecutedSql
from tests.tasks.backbone.offline.prompts import FOREIGN_KEYS, SAMPLES, SCHEMA, question

NUMBERED = ("sql", "result of sql", "reason")
"""Headings that are followed by a number: queries that were tried, their results, and why they failed."""

IGNORED = ("column descriptions", "keywords that may be needed", "linked tables",
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
    "strict": False,    "demonstrations_first": False, "empty_counts": True, "votes": [5, 1],
    "tools": [Tool("tables", "Names the tables.", {"properties": {}, "required": []})], "reduced": True,
}  # fmt: skip


class AlignmentReply(BaseModel):
    """The keys of an alignment; the stage reads it by hand."""

    alignment: list[dict[str, str | None]]


@dataclass(frozen=True)
class Shipped:
    """What the offline model must make of a shipped prompt."""

    task: Task
    reply: type[BaseModel] | None
    holds: Callable[[Any], bool]


def has(**expected: Any) -> Callable[[Any], bool]:
    """Return a check of a read prompt: question and schema are read, and the given attributes are as expected."""

    def check(prompt: Any) -> bool:
        assert prompt.question == QUESTION.text
        return all(getattr(prompt, name) == value for name, value in expected.items())

    return check


ASKED = has(evidence=QUESTION.evidence)
SHIPPED = {
    "agent": Shipped(Task.TURN, None, lambda p: ASKED(p) and p.current_sql),
    "preliminary_sql": Shipped(Task.QUERY, SqlReply, lambda p: ASKED(p) and p.examples and p.linked_columns),
    "augmented_sql": Shipped(Task.QUERY, SqlReply, lambda p: ASKED(p) and p.examples and p.linked_columns),
    "initial_sql": Shipped(Task.QUERY, SqlReply, lambda p: ASKED(p) and p.examples[0].sql == "SELECT 1"),
    "zero_shot_sql": Shipped(Task.CONTINUATION, None, ASKED),
    "binary_selection": Shipped(Task.SELECTION, SqlReply, lambda p: ASKED(p) and len(p.attempts) == 2),
    "compare_candidates": Shipped(Task.COMPARISON, BetterReply, lambda p: ASKED(p) and len(p.attempts) == 2),
    "merge_candidates": Shipped(Task.SELECTION, SqlReply, lambda p: ASKED(p) and len(p.attempts) == 2),
    "self_correction": Shipped(Task.CORRECTION, SqlReply, lambda p: ASKED(p) and len(p.attempts) == 1),
    "execution_correction": Shipped(Task.CORRECTION, SqlReply, lambda p: ASKED(p) and len(p.attempts) == 2),
    "execution_reflection": Shipped(Task.REFLECTION, None, lambda p: ASKED(p) and len(p.attempts) == 2),
    "bias_elimination": Shipped(Task.ELIMINATION, None, lambda p: ASKED(p) and len(p.attempts) == 1),
    "dac_correction": Shipped(Task.FEEDBACK, SqlReply, lambda p: ASKED(p) and p.current_sql and p.feedback),
    "skeleton_parsing": Shipped(Task.SKELETON, SqlReply, lambda p: ASKED(p) and p.examples),
    "forward_link": Shipped(
        Task.LINK,
        LinkReply,
        lambda p: ASKED(p) and "15" in p.task and list(map(str, p.linked_before)) == ["baker.Age"],
    ),
    "augmentation_keywords": Shipped(Task.KEYWORDS, KeywordsReply, ASKED),
    "augmentation_together": Shipped(Task.AUGMENTATION, AugmentationReply, ASKED),
    "augmentation_conditions": Shipped(Task.CONDITIONS, ConditionsReply, has()),
    "describe_columns": Shipped(
        Task.DESCRIPTIONS, DescriptionsReply, lambda p: p.described_columns == ("Age",)
    ),
    "entity_linking": Shipped(Task.ALIGNMENT, AlignmentReply, ASKED),
    "opinion": Shipped(Task.REFLECTION, OpinionReply, lambda p: ASKED(p) and len(p.attempts) == 2),
    "opinion_alone": Shipped(Task.REFLECTION, OpinionReply, lambda p: ASKED(p) and len(p.attempts) == 1),
    "native_omnisql": Shipped(Task.QUERY, None, ASKED),
    "native_arctic": Shipped(Task.QUERY, None, ASKED),
    "native_xiyan": Shipped(Task.QUERY, None, ASKED),
}
WITHOUT_SCHEMA = ("augmentation_conditions", "skeleton_parsing", "opinion")


def bakery() -> Schema:
    """The database of the other prompts, for the formats that the native layouts show it in."""
    read = read_schema(SCHEMA, SAMPLES, FOREIGN_KEYS, dialect="sqlite")
    tables = (
        Table(table.name, tuple(Column(c.name.column, "TEXT", samples=c.samples) for c in table.columns))
        for table in read.tables
    )
    keys = (
        ForeignKey(r.child.table, (r.child.column,), r.parent.table, (r.parent.column,))
        for r in read.references
    )
    return Schema("bakery", tuple(tables), tuple(keys), dialect="sqlite")


NATIVE: Mapping[str, SchemaFormat] = {
    "native_omnisql": "omnisql", "native_arctic": "omnisql", "native_xiyan": "m_schema",
}  # fmt: skip
NAMES = sorted(path.stem for path in (CHECKOUT / "conf" / "prompts").glob("[!_]*.jinja"))


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


def test_every_shipped_prompt_is_declared_here() -> None:
    assert sorted(SHIPPED) == NAMES, "declare in SHIPPED what the offline model must make of each template"


@pytest.mark.parametrize("name", NAMES)
def test_every_heading_of_a_shipped_prompt_is_known_to_the_offline_model(name: str) -> None:
    known = {*Heading, *IGNORED, *(f"{heading} n" for heading in NUMBERED)}
    headings = re.findall(r"^### +(.+?)\s*$", rendered(name)[-1].content, re.MULTILINE)
    unknown = {heading for heading in headings if re.sub(r"\d+$", "n", heading.lower()) not in known}
    assert not unknown, (
        f"conf/prompts/{name}.jinja has the headings {sorted(unknown)}, which the offline model does not know: "
        "declare them in tasks/backbone/offline/prompt/sections.py, in Heading, or here in NUMBERED or IGNORED"
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_task_of_a_shipped_prompt_is_recognised_by_keys_and_headings(name: str) -> None:
    shipped = SHIPPED[name]
    schema = reply_schema(shipped.reply) if shipped.reply else None
    why = f"the offline model takes conf/prompts/{name}.jinja for another task: see task_of in prompt/sections.py"
    assert task_of(Request(tuple(rendered(name)), schema)) == shipped.task, why
    assert task_of(Request(tuple(rendered(name)))) == shipped.task, f"without a JSON schema {why}"


@pytest.mark.parametrize("name", NAMES)
def test_the_sections_of_a_shipped_prompt_are_read(name: str) -> None:
    prompt = read_prompt(rendered(name))
    assert SHIPPED[name].holds(prompt), f"a section of conf/prompts/{name}.jinja is not read: {prompt}"
    if name not in WITHOUT_SCHEMA:
        columns = {str(column.name): column for column in prompt.schema.columns}
        assert columns["baker.Home Town"].samples == ("Millford", "Kettle", "Kettle")
        assert len(prompt.schema.references) == 3


def test_a_heading_that_is_renamed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    content = rendered("preliminary_sql")[-1].content.replace("### Schema", "### Database")
    monkeypatch.setitem(globals(), "rendered", lambda name: (Message("user", content),))
    with pytest.raises(AssertionError, match=r"preliminary_sql\.jinja has the headings \['Database'\]"):
        test_every_heading_of_a_shipped_prompt_is_known_to_the_offline_model("preliminary_sql")

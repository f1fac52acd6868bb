"""Every prompt, word for word, as the backbone receives it.

    UPDATE_GOLDEN=1 python -m pytest tests/test_prompts_golden.py      # then read the difference in git

Each file in `prompts_golden/` is named after the template and what is special about it.
"""

import os
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.core.errors import ConfigurationError
from tasks.core.records import (
    Augmentation,
    CorrectionCase,
    Demonstration,
    FewShotQuestion,
    Link,
    Question,
    SqlPair,
)
from tasks.database.schema import Schema
from tasks.database.schema_text import SchemaView
from tasks.settings.home import find_conf
from tasks.settings.pipeline import PromptSettings, RslSqlSettings
from tasks.settings.stages import CorrectionTurns, SelectionSettings
from tasks.stages import prompts
from tasks.stages.columns import describe_columns
from tasks.stages.links import read_link
from tasks.stages.rsl_sql import (
    augmentation_conditions,
    augmentation_elements,
    augmentation_keywords,
    augmentation_together,
    augmented_sql,
    binary_selection,
    forward_link,
    preliminary_sql,
    self_correction,
)
from tests.support.agent_prompts import AGENT_CASES
from tests.support.dac_prompts import DAC_CASES
from tests.support.prompt_cases import CANDIDATE_CASES, NATIVE_CASES, SEA_CASES
from tests.support.stage_bench import (
    DEMONSTRATIONS,
    ENDLESS,
    PLAIN,
    QUESTION,
    Bench,
    bench,
    fake_openai,
    museum,
    open_fake,
    sql_reply,
    workers,
)

__all__ = ["bench", "fake_openai", "museum", "open_fake", "workers"]

GOLDEN = Path(__file__).with_name("prompts_golden")
FULL = PromptSettings()
BARE = PromptSettings(sample_rows=0, foreign_keys=False)
GOOD, EMPTY, WRONG = (
    "SELECT name FROM museum",
    "SELECT name FROM museum WHERE id = 9",
    "SELECT nam FROM museum",
)

NO_AUGMENTATION = Augmentation()

Case = Callable[[Bench], Awaitable[object]]


def some_link(schema: Schema) -> Link:
    return read_link(
        schema,
        ["museum"],
        ["museum.id", "museum.name", "museum.city", "order.museum_id", "order.total.eur", "order.no`te"],
    )


def reduced(bench: Bench, prompt: PromptSettings = FULL, *, descriptions: bool = True) -> SchemaView:
    return SchemaView(bench.schema, prompt, descriptions=descriptions).reduced_to(some_link(bench.schema))


def preliminary(
    prompt: PromptSettings = FULL,
    *,
    question: Question = QUESTION,
    demonstrations: tuple[Demonstration, ...] = DEMONSTRATIONS,
    linked: bool = True,
    descriptions: bool = False,
) -> Case:
    return lambda bench: preliminary_sql(
        FewShotQuestion(question, demonstrations),
        SchemaView(bench.schema, prompt, descriptions=descriptions),
        some_link(bench.schema) if linked else None,
        bench.backbone,
    )


def forward(question: Question = QUESTION, *, again: bool = False) -> Case:
    return lambda bench: forward_link(
        question,
        SchemaView(bench.schema),
        12,
        some_link(bench.schema) if again else None,
        bench.backbone,
    )


def second(augmentation: Augmentation | None, *, question: Question = QUESTION, bare: bool = False) -> Case:
    def case(bench: Bench) -> Awaitable[object]:
        schema = reduced(bench).schema
        full = Augmentation(
            some_link(schema),
            ("SELECT", "DISTINCT"),
            ("museums, not shops", "those of Lyon", "sold something"),
        )
        return augmented_sql(
            FewShotQuestion(question, () if bare else DEMONSTRATIONS),
            SchemaView(schema, BARE if bare else FULL, descriptions=not bare),
            augmentation or full,
            bench.backbone,
        )

    return case


def selection(sql1: str, sql2: str, *, question: Question = QUESTION, counts: bool = False) -> Case:
    settings = SelectionSettings(counts=counts, rows_shown=2)
    return lambda bench: binary_selection(
        FewShotQuestion(question, DEMONSTRATIONS),
        reduced(bench),
        SqlPair(sql1, sql2),
        settings,
        bench.runner,
        bench.backbone,
    )


def correction(
    sql: str | None,
    *replies: str,
    question: Question = QUESTION,
    augmentation: Augmentation = NO_AUGMENTATION,
    **settings: Any,
) -> Case:
    def case(bench: Bench) -> Awaitable[object]:
        bench.says(*replies)
        return self_correction(
            CorrectionCase(FewShotQuestion(question, DEMONSTRATIONS), sql, augmentation),
            reduced(bench),
            CorrectionTurns(rounds=len(replies), **settings),
            bench.runner,
            bench.backbone,
        )

    return case


def description(table: str, *columns: str, renamed: str = "") -> Case:
    def case(bench: Bench) -> Awaitable[object]:
        found = bench.schema.table(table)
        if renamed:
            found = replace(found, name=renamed, columns=(replace(found.columns[0], name=columns[0]),))
        view = SchemaView(Schema("museum", (found,), dialect="sqlite"), descriptions=True)
        return describe_columns(view, found.name, columns, bench.backbone)

    return case


CASES: dict[str, Case] = {
    "preliminary_sql.full": preliminary(),
    "preliminary_sql.bare": preliminary(BARE, question=PLAIN, demonstrations=(), linked=False),
    "preliminary_sql.descriptions": preliminary(linked=False, descriptions=True),
    "preliminary_sql.create_table": preliminary(
        PromptSettings(schema_format="create_table"), descriptions=True
    ),
    "preliminary_sql.m_schema": preliminary(PromptSettings(schema_format="m_schema"), descriptions=True),
    "preliminary_sql.published_order": preliminary(PromptSettings(demonstrations_first=True)),
    "preliminary_sql.published_rules": preliminary(RslSqlSettings().prompt),
    "preliminary_sql.task_last": preliminary(PromptSettings(task="last")),
    "forward_link.full": forward(),
    "forward_link.no_evidence": forward(PLAIN),
    "forward_link.task_last": lambda bench: forward_link(
        QUESTION, SchemaView(bench.schema, PromptSettings(task="last")), 15, None, bench.backbone
    ),
    "forward_link.later_iteration": forward(again=True),
    "forward_link.elements_of_the_reduced_schema": lambda bench: augmentation_elements(
        QUESTION, reduced(bench), 15, bench.backbone
    ),
    "augmentation_keywords.full": lambda bench: augmentation_keywords(
        QUESTION, reduced(bench), bench.backbone
    ),
    "augmentation_keywords.bare": lambda bench: augmentation_keywords(
        PLAIN, reduced(bench, BARE, descriptions=False), bench.backbone
    ),
    "augmentation_conditions.full": lambda bench: augmentation_conditions(QUESTION, bench.backbone),
    "augmentation_together.full": lambda bench: augmentation_together(
        QUESTION, reduced(bench), ("elements", "keywords", "conditions"), 15, bench.backbone
    ),
    "augmentation_together.without_keywords": lambda bench: augmentation_together(
        PLAIN, reduced(bench), ("elements", "conditions"), 15, bench.backbone
    ),
    "augmented_sql.full": second(None),
    "augmented_sql.all_switches_off": second(Augmentation(), question=PLAIN, bare=True),
    "augmented_sql.nothing_found": second(Augmentation(Link(), (), ())),
    "binary_selection.plain": selection(GOOD, EMPTY),
    "binary_selection.counts": selection(GOOD, EMPTY, counts=True),
    "binary_selection.error_and_timeout": selection(WRONG, ENDLESS, question=PLAIN),
    "self_correction.informed": correction(
        WRONG,
        sql_reply(EMPTY),
        sql_reply(GOOD),
        augmentation=Augmentation(None, ("SELECT", "DISTINCT"), ("those of Lyon", "sold something")),
    ),
    "self_correction.blind": correction(WRONG, sql_reply(EMPTY), sql_reply(GOOD), first_turn="blind"),
    "self_correction.errors_only": correction(WRONG, sql_reply(WRONG), sql_reply(GOOD), when="error"),
    "self_correction.no_query": correction(None, "?", "?", sql_reply(GOOD), question=PLAIN),
    "describe_columns.plain": description("museum", "name", "opened in"),
    "describe_columns.odd_names": description("museum", "city, or town", renamed="a `b`"),
    **AGENT_CASES,
    **CANDIDATE_CASES,
    **DAC_CASES,
    **SEA_CASES,
    **NATIVE_CASES,
}


async def rendered(bench: Bench, case: Case) -> str:
    """Return every different message that a case sends, in order."""
    bench.server.answer = lambda body: sql_reply(GOOD)
    await bench.run(case(bench))
    turns = [(message["role"], message["content"]) for message in bench.conversations[-1]]
    return "".join(f"=== {role}\n{content.rstrip()}\n" for role, content in turns)


@pytest.mark.parametrize("name", CASES)
async def test_a_prompt_is_what_its_golden_file_says(bench: Bench, name: str) -> None:
    text = await rendered(bench, CASES[name])
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert file.is_file(), f"no {file.name}: make it with UPDATE_GOLDEN=1, and read it"
    assert text == file.read_text(encoding="utf-8")


def test_every_template_and_every_golden_file_has_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == set(CASES)
    templates = {path.stem for path in (find_conf() / "prompts").glob("[!_]*.jinja")}
    assert templates - {name.partition(".")[0] for name in CASES} == set()


@pytest.mark.parametrize("name", CASES)
def test_sections_stand_one_blank_line_apart(name: str) -> None:
    text = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    for message in re.split(r"^=== \w+\n", text, flags=re.MULTILINE)[1:]:
        assert "\n\n\n" not in message
        assert message == message.lstrip()
        for heading in re.finditer(r"^### ", message, re.MULTILINE):
            before = message[: heading.start()]
            assert before == "" or before.endswith("\n\n")
            assert message[heading.start() :].partition("\n")[2].strip(), "a heading without content"
        assert not re.search(r"[ \t]+$", message, re.MULTILINE)


DATABASE = ["Schema", "Sample values", "Foreign keys"]
ORDER = {
    # the paper's order (E, instruction, S, V, FK, linked, C, Q), but E behind what all questions of a database share
    "preliminary_sql.full": ["Task", *DATABASE, "Examples", "Linked tables", "Linked columns", "Evidence", "Question"],
    "preliminary_sql.published_order": [
        "Examples", "Task", *DATABASE, "Linked tables", "Linked columns", "Evidence", "Question",
    ],
    # S, V, FK, C, Q
    "forward_link.full": ["Task", *DATABASE, "Evidence", "Question"],
    # S', V', FK', D', E, H_K, H_E, H_C, C, Q
    "augmented_sql.full": [
        "Task", *DATABASE, "Column descriptions", "Examples", "Keywords that may be needed", "Linked tables",
        "Linked columns", "Conditions in the question", "Evidence", "Question",
    ],
    # from the question alone
    "augmentation_conditions.full": ["Task", "Question"],
    # S', V', FK', D', E, C, Q, SQL1, result 1, SQL2, result 2
    "binary_selection.plain": [
        "Task", *DATABASE, "Column descriptions", "Examples", "Evidence", "Question", "SQL 1", "Result of SQL 1",
        "SQL 2", "Result of SQL 2",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", ORDER)
def test_sections_come_in_the_papers_order(name: str) -> None:
    text = (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")
    assert re.findall(r"^### (.+)$", text, re.MULTILINE) == [*ORDER[name], "Reply"]


def copied_prompts(folder: Path) -> Path:
    copy = folder / "prompts"
    copy.mkdir()
    for path in (find_conf() / "prompts").glob("*.jinja"):
        (copy / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    return copy


@pytest.mark.parametrize(("broken", "text", "said"), [
    ("preliminary_sql.jinja", "{% block user %}{{ question.text }", "preliminary_sql.jinja, line 1"),
    ("_sections.jinja", "{% macro listed(", "_sections.jinja, line 1"),
])  # fmt: skip
def test_a_broken_template_is_a_configuration_error_that_names_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str, text: str, said: str
) -> None:
    (copied_prompts(tmp_path) / broken).write_text(text, encoding="utf-8")
    monkeypatch.setenv("CROSSCHECK_CONF", str(tmp_path))
    with pytest.raises(ConfigurationError, match=said):
        prompts.check()


def test_an_edited_template_and_its_digest_change_together_when_the_next_run_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = copied_prompts(tmp_path) / "agent.jinja"
    monkeypatch.setenv("CROSSCHECK_CONF", str(tmp_path))

    def used() -> tuple[str, str]:
        return prompts.render("agent", "reminder"), prompts.digest("agent")

    prompts.check()
    before = used()
    text = template.read_text(encoding="utf-8")
    template.write_text(text.replace("You called no tool", "Edited: you called no tool"), encoding="utf-8")
    assert used() == before, "in the middle of a run"
    prompts.check()
    rendered, digest = used()
    assert rendered.startswith("Edited: ") and digest != before[1]


def test_a_wrong_prompt_block_or_variable_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match='Did you mean "forward_link"'):
        prompts.render("forwardlink")
    with pytest.raises(ConfigurationError, match='Did you mean "again"'):
        prompts.render("self_correction", "agian")
    with pytest.raises(ConfigurationError, match=r"augmentation_conditions.*'question' is undefined"):
        prompts.render("augmentation_conditions")

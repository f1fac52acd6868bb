"""What prompts about one database have in common, and say so."""

from dataclasses import replace

import pytest

from tasks.backbone.protocol import Message, Request, shared_prefix_digest
from tasks.core.records import ColumnName, Link, Question
from tasks.database.schema_text import SchemaView
from tasks.settings.pipeline import PromptSettings
from tasks.stages.schema_prompt import schema_messages
from tests.support.stage_bench import QUESTION, Bench

LINK = Link(("museum",), (ColumnName("museum", "name"),))


def prompt(
    view: SchemaView, question: Question = QUESTION, template: str = "preliminary_sql"
) -> tuple[Message, ...]:
    return schema_messages(
        template,
        view,
        question=question,
        demonstrations=(),
        linked_tables=(),
        linked_columns=(),
        hints=(),
        max_columns_per_table=15,
    )


def digest(messages: tuple[Message, ...]) -> str | None:
    return shared_prefix_digest(Request(messages))


@pytest.mark.parametrize("task", ["first", "last"])
def test_the_beginning_that_other_questions_share_ends_with_the_schema(bench: Bench, task: str) -> None:
    view = SchemaView(bench.schema, PromptSettings(task=task))
    other = replace(QUESTION, text="Another one?", evidence="")
    (system, one), (_, two) = prompt(view), prompt(view, other)
    shared = one.content[: one.shared]
    assert shared == two.content[: two.shared] and not one.content[one.shared :].startswith(
        two.content[two.shared :]
    )
    assert bench.schema.tables[-1].name in shared and QUESTION.text not in shared and not system.shared
    assert digest((system, one)) == digest((system, two)) is not None
    assert (digest(prompt(view)) == digest(prompt(view, template="forward_link"))) == (task == "last")


@pytest.mark.parametrize(
    "view",
    [
        lambda view: view.reduced_to(LINK),
        lambda view: replace(view, prompt=PromptSettings(task="last")).reduced_to(LINK),
        lambda view: view.with_samples(view.schema, 2),
        lambda view: replace(view, prompt=PromptSettings(demonstrations_first=True)),
    ],
    ids=["reduced", "reduced, task last", "values of a question", "examples first"],
)
def test_a_schema_that_was_shown_for_one_question_is_shared_with_none(bench: Bench, view: object) -> None:
    messages = prompt(view(SchemaView(bench.schema)))  # type: ignore[operator]
    assert digest(messages) is None

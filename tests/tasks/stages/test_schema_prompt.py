"""What prompts about one database have in common, and how results are shown to a backbone."""

from dataclasses import replace

import pytest

from tasks.backbone.protocol import Message, Request, shared_prefix_digest
from tasks.core.records import ColumnName, Execution, Link, Question
from tasks.database.schema_text import SchemaView
from tasks.settings.pipeline import PromptSettings
from tasks.stages.schema_prompt import MAX_ERROR, outcome_of, schema_messages, show_result
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


TWO = Execution("ok", ("id", "name"), ((1, "Ann"), (2, None)), row_count=2)


@pytest.mark.parametrize(
    ("execution", "shown", "outcome"),
    [
        (None, "There is no query.", "no_answer"),
        (Execution("ok", ("a",), (), row_count=0), "No rows.", "empty"),
        (Execution("error", error="no such column: x"), "Error: no such column: x", "error"),
        (Execution("too_large", error="More than 5 rows."), "Error: More than 5 rows.", "too_large"),
        (TWO, "id | name\n1 | Ann\n2 | NULL", "ok"),
    ],
)
def test_a_result_is_its_rows_or_why_there_are_none(execution: Execution, shown: str, outcome: str) -> None:
    assert show_result(execution, 5) == shown
    assert outcome_of(execution) == outcome


def test_a_time_out_reads_the_same_however_long_it_took() -> None:
    shown = {show_result(Execution("timeout", error=f"{s} s", seconds=s), 5) for s in (30.0, 30.6, 32.1)}
    assert shown == {"Time-out: the query took too long and was stopped."}
    assert outcome_of(Execution("timeout")) == "timeout"


@pytest.mark.parametrize(
    ("count", "rows", "said"),
    [
        (1, 5, "(1 row)"),
        (2, 5, "(2 rows)"),
        (2, 1, "(2 rows, first 1 shown)"),
        (900, 2, "(900 rows, first 2 shown)"),
    ],
)
def test_counts_say_how_many_rows_there_are(count: int, rows: int, said: str) -> None:
    execution = Execution("ok", ("id", "name"), TWO.rows[:count], row_count=count)
    assert show_result(execution, rows, counts=True).splitlines()[-1] == said
    assert said not in show_result(execution, rows)


def test_a_value_stays_on_its_line_and_is_cut_to_a_readable_length() -> None:
    values = ("two\nlines\r\nof\u2028text", "x" * 300, b"\x00\x01\x02", 1.5, "")
    execution = Execution("ok", ("a\nb", "b", "c", "d", "e"), (values,), row_count=1)
    header, row = show_result(execution, 5).split("\n")
    assert header == "a b | b | c | d | e"
    assert row == f"two lines of text | {'x' * 100}... | <3 bytes> | 1.5 | "


def test_an_error_that_quotes_the_whole_statement_is_cut() -> None:
    shown = show_result(Execution("error", error="unrecognized token: \"'a\nb" + "c" * 5000), 5)
    assert shown.startswith("Error: unrecognized token: \"'a b")
    assert len(shown) == len("Error: ") + MAX_ERROR + len("...")

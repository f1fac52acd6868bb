"""What prompts about one database share, how results are shown to a backbone, and schemas that exceed its context."""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from flows.pipelines.one_call import few_shot
from flows.pipelines.pipeline import Context
from tasks.backbone.protocol import Message, Request, shared_prefix_digest
from tasks.core.records import ColumnName, Execution, Link, Question
from tasks.database.schema import Column, ForeignKey, Schema, Table
from tasks.database.schema_text import SchemaView
from tasks.settings.backbone import BackboneSettings
from tasks.settings.pipeline import FewShotSettings, PromptSettings
from tasks.stages.schema_prompt import (
    MAX_ERROR,
    outcome_of,
    room_for,
    schema_messages,
    schema_pruning,
    schema_room,
    show_result,
    text_size,
)
from tests.support.stage_bench import QUESTION, Bench, sql_reply

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


@pytest.mark.parametrize("view", [
    lambda view: view.reduced_to(LINK),
    lambda view: replace(view, prompt=PromptSettings(task="last")).reduced_to(LINK),
    lambda view: view.with_samples(view.schema, 2),
    lambda view: replace(view, prompt=PromptSettings(demonstrations_first=True)),
], ids=["reduced", "reduced, task last", "values of a question", "examples first"])  # fmt: skip
def test_a_schema_that_was_shown_for_one_question_is_shared_with_none(bench: Bench, view: object) -> None:
    messages = prompt(view(SchemaView(bench.schema)))  # type: ignore[operator]
    assert digest(messages) is None


TWO = Execution("ok", ("id", "name"), ((1, "Ann"), (2, None)), row_count=2)


@pytest.mark.parametrize(("execution", "shown", "outcome"), [
    (None, "There is no query.", "no_answer"),
    (Execution("ok", ("a",), (), row_count=0), "No rows.", "empty"),
    (Execution("error", error="no such column: x"), "Error: no such column: x", "error"),
    (Execution("too_large", error="More than 5 rows."), "Error: More than 5 rows.", "too_large"),
    (TWO, "id | name\n1 | Ann\n2 | NULL", "ok"),
])  # fmt: skip
def test_a_result_is_its_rows_or_why_there_are_none(execution: Execution, shown: str, outcome: str) -> None:
    assert show_result(execution, 5) == shown
    assert outcome_of(execution) == outcome


def test_what_is_shown_of_a_result_is_readable_and_the_same_each_time() -> None:
    shown = {show_result(Execution("timeout", error=f"{s} s", seconds=s), 5) for s in (30.0, 30.6, 32.1)}
    assert shown == {"Time-out: the query took too long and was stopped."}
    assert outcome_of(Execution("timeout")) == "timeout"
    values = ("two\nlines\r\nof\u2028text", "x" * 300, b"\x00\x01\x02", 1.5, "")
    execution = Execution("ok", ("a\nb", "b", "c", "d", "e"), (values,), row_count=1)
    header, row = show_result(execution, 5).split("\n")
    assert header == "a b | b | c | d | e"
    assert row == f"two lines of text | {'x' * 100}... | <3 bytes> | 1.5 | "
    shown = show_result(Execution("error", error="unrecognized token: \"'a\nb" + "c" * 5000), 5)
    assert shown.startswith("Error: unrecognized token: \"'a b")
    assert len(shown) == len("Error: ") + MAX_ERROR + len("...")


@pytest.mark.parametrize(("count", "rows", "said"), [
    (1, 5, "(1 row)"),
    (2, 5, "(2 rows)"),
    (2, 1, "(2 rows, first 1 shown)"),
    (900, 2, "(900 rows, first 2 shown)"),
])  # fmt: skip
def test_counts_say_how_many_rows_there_are(count: int, rows: int, said: str) -> None:
    execution = Execution("ok", ("id", "name"), TWO.rows[:count], row_count=count)
    assert show_result(execution, rows, counts=True).splitlines()[-1] == said
    assert said not in show_result(execution, rows)


TABLES, COLUMNS = 100, 30
ALLOYS = Question("1", "What is the melting point of each alloy?", "factory", "alloy is in t42")
ROOM = schema_room(4096, 1024)


def factory() -> Schema:
    """A schema of 3,000 columns, two of which the question is about."""

    def named(table: int, column: int) -> Column:
        names = {(42, 7): "MeltingPoint", (42, 11): "alloy_name"}
        return Column(names.get((table, column), f"attribute{table}x{column}"), "TEXT", samples=("a sample",))

    tables = tuple(
        Table(
            f"t{n}", (Column("id", "INTEGER"), *(named(n, c) for c in range(1, COLUMNS))), primary_key=("id",)
        )
        for n in range(TABLES)
    )
    keys = tuple(ForeignKey(f"t{n}", (f"attribute{n}x1",), "t0", ("id",)) for n in range(1, TABLES))
    return Schema("factory", tables, keys, dialect="sqlite")


async def test_the_columns_nearest_to_the_question_and_their_keys_stay_and_at_least_one(bench: Bench) -> None:
    view = SchemaView(factory())
    link = await bench.run(schema_pruning(ALLOYS, view, ROOM))
    kept = {str(column) for column in link.columns}
    assert {"t42.MeltingPoint", "t42.alloy_name", "t42.id"} <= kept
    assert ROOM / 2 < text_size(view.reduced_to(link)) <= ROOM
    assert all(f"{table}.id" in kept for table in link.tables)
    link = await bench.run(schema_pruning(ALLOYS, SchemaView(factory()), 1))
    assert 1 <= len(link.columns) <= 2


async def test_what_was_cut_is_noted_and_the_kept_columns_are_the_stage_s_result(bench: Bench) -> None:
    bench.says(sql_reply("SELECT 1"))
    wide = replace(bench.runner, database=replace(bench.runner.database, schema=factory()))
    context = Context(FewShotSettings(name="few-shot"), wide, (), bench.backbone, schema_room=ROOM)
    await bench.run(few_shot(ALLOYS, context))
    (note,) = context.record.notes
    assert (
        note.startswith(f"the schema has more than {ROOM:,} bytes of text: ") and "of 3,000 columns" in note
    )
    pruning, asked = bench.records
    assert (pruning.stage, pruning.calls, len(asked.calls)) == ("schema_pruning", (), 1)
    ((message, *_),) = bench.conversations
    shown = str(bench.conversations[0])
    assert "MeltingPoint" in shown and message["role"] in ("system", "user")
    assert len(shown.encode()) < 4096 * 2.5


def test_only_a_wide_schema_is_pruned_where_the_context_is_unknown() -> None:
    unknown, known = (
        BackboneSettings(name="m"),
        BackboneSettings(name="m", context_tokens=4096, max_tokens=1024),
    )
    narrow = Schema("factory", factory().tables[:33], (), dialect="sqlite")  # 990 columns
    assert room_for(narrow, unknown) is None and room_for(narrow, known) == ROOM
    assert room_for(factory(), unknown) == 100_000 < text_size(SchemaView(factory()))


async def test_a_schema_that_fits_is_shown_as_it_is(bench: Bench) -> None:
    bench.says(sql_reply("SELECT 1"), sql_reply("SELECT 1"))
    for room in (None, ROOM):
        context = Context(
            FewShotSettings(name="few-shot"), bench.runner, (), bench.backbone, schema_room=room
        )
        await bench.run(few_shot(ALLOYS, context))
        assert context.record.notes == []
    first, second = bench.conversations
    assert first == second


def test_the_reply_has_to_fit_too() -> None:
    with pytest.raises(ValidationError, match="set a lower max_tokens"):
        BackboneSettings(name="small", context_tokens=1024, max_tokens=1024)

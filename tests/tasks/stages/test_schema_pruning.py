"""Schemas that exceed the model's context are pruned before the call; all others are shown as they are."""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from flows.pipelines.pipeline import Context
from flows.pipelines.rsl_sql import few_shot
from tasks.core.records import Question
from tasks.database.schema import Column, ForeignKey, Schema, Table
from tasks.database.schema_text import SchemaView
from tasks.settings.backbone import BackboneSettings
from tasks.settings.pipeline import FewShotSettings
from tasks.stages.schema_prompt import room_for, schema_pruning, schema_room, text_size
from tests.support.stage_bench import Bench, sql_reply

TABLES, COLUMNS = 100, 30
QUESTION = Question("1", "What is the melting point of each alloy?", "factory", "alloy is in t42")
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


async def test_the_columns_nearest_to_the_question_and_their_keys_stay(bench: Bench) -> None:
    view = SchemaView(factory())
    link = await bench.run(schema_pruning(QUESTION, view, ROOM))
    kept = {str(column) for column in link.columns}
    assert {"t42.MeltingPoint", "t42.alloy_name", "t42.id"} <= kept
    assert ROOM / 2 < text_size(view.reduced_to(link)) <= ROOM
    assert all(f"{table}.id" in kept for table in link.tables)


async def test_what_was_cut_is_noted_and_the_kept_columns_are_the_stage_s_result(bench: Bench) -> None:
    bench.says(sql_reply("SELECT 1"))
    wide = replace(bench.runner, database=replace(bench.runner.database, schema=factory()))
    context = Context(FewShotSettings(name="few-shot"), wide, (), bench.backbone, schema_room=ROOM)
    await bench.run(few_shot(QUESTION, context))
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
        await bench.run(few_shot(QUESTION, context))
        assert context.record.notes == []
    first, second = bench.conversations
    assert first == second


async def test_one_column_is_left_where_nothing_fits(bench: Bench) -> None:
    link = await bench.run(schema_pruning(QUESTION, SchemaView(factory()), 1))
    assert 1 <= len(link.columns) <= 2


def test_the_reply_has_to_fit_too() -> None:
    with pytest.raises(ValidationError, match="set a lower max_tokens"):
        BackboneSettings(name="small", context_tokens=1024, max_tokens=1024)

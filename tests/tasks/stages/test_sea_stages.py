"""SEA-SQL's stages against a scripted model: what is asked, what is read, and what happens when it goes wrong."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.core.errors import BackboneError
from tasks.core.records import Answer, Correction, Elimination, FewShotQuestion
from tasks.database.schema_text import SchemaView
from tasks.retrieval.value_index import DatabaseValues
from tasks.settings.pipeline import SeaSqlSettings
from tasks.settings.stages import BiasEliminationSettings, ExecutionAdjustmentSettings
from tasks.stages.sea_sql import (
    MAX_REASON,
    NO_REASON,
    bias_elimination,
    elimination_prompt,
    execution_adjustment,
    read_continuation,
    value_retrieval,
    zero_shot_sql,
)
from tests.support.fake_openai import Body, error, out_of_tokens, reply, server_error
from tests.support.pairs import Pair, read_pairs
from tests.support.stage_bench import ENDLESS, QUESTION, Bench, sql_reply

GOOD, EMPTY, WRONG = (
    "SELECT name FROM museum",
    "SELECT name FROM museum WHERE id = 9",
    "SELECT nam FROM museum",
)


def view(bench: Bench) -> SchemaView:
    return SchemaView(bench.schema, SeaSqlSettings().prompt)


async def write(bench: Bench) -> Answer:
    return await bench.run(zero_shot_sql(FewShotQuestion(QUESTION), view(bench), bench.backbone))


async def eliminate(bench: Bench, sql: str = GOOD) -> Elimination:
    settings = BiasEliminationSettings()
    return await bench.run(
        bias_elimination(QUESTION, view(bench), sql, settings, bench.runner, bench.backbone)
    )


async def adjust(bench: Bench, sql: str | None, rounds: int = 10) -> Correction:
    settings = ExecutionAdjustmentSettings(rounds=rounds)
    return await bench.run(
        execution_adjustment(QUESTION, view(bench), sql, settings, bench.runner, bench.backbone)
    )


def is_reflection(body: Body) -> bool:
    return "without a query" in body["messages"][-1]["content"].rpartition("### Reply")[2]


def scripted(bench: Bench, corrections: list[str | None], reason: str = "There is no such column.") -> None:
    """Answer reflections with the reason, and corrections one after the other, the last for ever."""
    left = list(corrections)

    def answer(body: Body) -> str:
        if is_reflection(body):
            return reason
        return sql_reply(left.pop(0) if len(left) > 1 else left[0])

    bench.server.answer = answer


class TestZeroShot:
    async def test_one_message_ends_with_select_which_is_put_back(self, bench: Bench) -> None:
        bench.says("name FROM museum;")
        assert await write(bench) == Answer(GOOD)
        (conversation,) = bench.conversations
        assert [message["role"] for message in conversation] == ["user"]
        assert conversation[0]["content"].endswith("\nSELECT")
        assert QUESTION.text in conversation[0]["content"] and QUESTION.evidence in conversation[0]["content"]
        assert "response_format" not in bench.server.requests[0].body

    @pytest.mark.parametrize("odd", ["", "I cannot.", '{"sql": ""}', "```\n```", "\ud83d"])
    async def test_a_reply_without_sql_is_asked_for_again(self, bench: Bench, odd: str) -> None:
        bench.says(odd, "name FROM museum")
        assert await write(bench) == Answer(GOOD)
        assert len(bench.server.requests) == 2

    @pytest.mark.parametrize("odd", ["", "I cannot."])
    async def test_twice_without_sql_is_no_answer_with_a_reason(self, bench: Bench, odd: str) -> None:
        bench.server.always(reply(odd))
        assert await write(bench) == Answer(None, "the reply held no SQL")
        assert len(bench.server.requests) == 2
        assert bench.notes == (
            ('no SQL in the reply, twice: "I cannot."',) if odd else ("reply empty twice",)
        )


class TestBiasElimination:
    async def test_the_eliminator_sees_the_sql_and_its_result_and_is_asked_greedily(
        self, bench: Bench
    ) -> None:
        bench.says(GOOD)
        assert await eliminate(bench) == Elimination(GOOD, "unchanged")
        (conversation,) = bench.conversations
        text = conversation[0]["content"]
        assert [message["role"] for message in conversation] == ["user"]
        assert f"### SQL 1\n{GOOD}\n\n### Result of SQL 1\nname\nGlass House\nToy Hall\nOld Mill\n" in text
        assert text.startswith("### Instruction\n") and text.endswith("### Response\nQuery:\n")
        assert bench.server.requests[0].body["temperature"] == 0

    @pytest.mark.parametrize(("said", "expected"), [
        ("select name\nfrom museum;", Elimination(GOOD, "unchanged")),
        (f"```sql\n{EMPTY}\n```", Elimination(EMPTY, "changed")),
    ])  # fmt: skip
    async def test_another_sql_takes_its_place_and_other_writing_does_not(
        self, bench: Bench, said: str, expected: Elimination
    ) -> None:
        bench.says(said)
        assert await eliminate(bench) == expected

    @pytest.mark.parametrize(
        ("behaviour", "why"),
        [
            (reply(""), "the eliminator wrote no SQL"),
            (reply("It looks right to me."), "the eliminator wrote no SQL"),
            (out_of_tokens("SELECT name FROM museum WHERE"), "the eliminator's reply was cut off"),
            (
                error(
                    400, "This model's maximum context length is 4096 tokens.", code="context_length_exceeded"
                ),
                "the eliminator refused",
            ),
        ],
    )
    async def test_whatever_it_cannot_say_keeps_the_preliminary_sql(
        self, bench: Bench, behaviour: Any, why: str
    ) -> None:
        bench.server.always(behaviour)
        found = await eliminate(bench)
        assert (found.sql, found.outcome) == (GOOD, "kept") and found.note.startswith(why)
        assert any(why in note and "was kept" in note for note in bench.notes)

    async def test_a_server_that_is_down_is_no_outcome_to_keep(self, bench: Bench) -> None:
        bench.server.always(server_error())
        with pytest.raises(BackboneError):
            await eliminate(bench)

    async def test_the_prompt_of_training_is_the_prompt_of_inference(self, bench: Bench) -> None:
        bench.says(GOOD)
        await eliminate(bench, EMPTY)
        execution = await bench.runner.run(EMPTY, rows=10)
        written = elimination_prompt(QUESTION, view(bench), EMPTY, execution, 10)
        assert bench.server.prompts == [written]
        assert written.startswith("### Instruction\n") and written.endswith("\n\n### Response\nQuery:\n")


class TestExecutionAdjustment:
    @pytest.mark.parametrize(("sql", "fares"), [(GOOD, "ok"), (EMPTY, "empty")])
    async def test_what_executes_needs_no_round(self, bench: Bench, sql: str, fares: str) -> None:
        assert await adjust(bench, sql) == Correction(sql, 0, fares, fares)
        assert bench.server.requests == []

    async def test_it_stops_when_the_sql_executes(self, bench: Bench) -> None:
        scripted(bench, ["SELECT nme FROM museum", GOOD])
        assert await adjust(bench, WRONG) == Correction(GOOD, 2, "error", "ok")
        assert [is_reflection(received.body) for received in bench.server.requests] == [True, False] * 2

    async def test_it_stops_after_ten_rounds_with_the_last_sql(self, bench: Bench) -> None:
        scripted(bench, [f"SELECT no{number} FROM museum" for number in range(20)])
        assert await adjust(bench, WRONG) == Correction("SELECT no9 FROM museum", 10, "error", "error")
        assert len(bench.server.requests) == 20

    async def test_a_time_out_is_a_failure(self, bench: Bench) -> None:
        scripted(bench, [GOOD])
        assert await adjust(bench, ENDLESS) == Correction(GOOD, 1, "timeout", "ok")
        assert "Time-out" in bench.server.prompts[0]

    async def test_every_prompt_shows_all_mistakes_so_far_each_once(self, bench: Bench) -> None:
        scripted(
            bench, [f"SELECT no{number} FROM museum" for number in range(9)] + [GOOD], "It is not there."
        )
        await adjust(bench, WRONG)
        for number, prompt in enumerate(bench.server.prompts):
            failed = [WRONG, *(f"SELECT no{earlier} FROM museum" for earlier in range(number // 2))]
            assert [prompt.count(sql) for sql in failed] == [1] * len(failed)
            assert prompt.count("### SQL ") == prompt.count("### Result of SQL ") == len(failed)
            assert (
                prompt.count("### Reason ")
                == prompt.count("It is not there.")
                == len(failed) - (number % 2 == 0)
            )

    async def test_a_mistake_made_again_is_not_shown_again(self, bench: Bench) -> None:
        scripted(bench, ["select NAM from museum;", WRONG, "SELECT nme FROM museum", WRONG, GOOD])
        assert await adjust(bench, WRONG) == Correction(GOOD, 5, "error", "ok")
        assert all(prompt.count(WRONG) == 1 for prompt in bench.server.prompts)
        reflections = [received for received in bench.server.requests if is_reflection(received.body)]
        assert len(reflections) == 2
        times = [prompt.count("has been given") for prompt in bench.server.prompts]
        assert times == [0, 0, 1, 1, 0, 1, 1]
        assert "given 3 times; do not give it again: SQL 1." in bench.server.prompts[3]
        assert "given 4 times; do not give it again: SQL 2." in bench.server.prompts[6]
        assert len(set(bench.server.prompts)) == len(bench.server.prompts)

    @pytest.mark.parametrize("odd", ["", "no", '{"sql": ""}', '{"sql": "?"}', '{"tables": []}', "[]"])
    async def test_a_round_without_sql_keeps_the_one_before_and_goes_on(self, bench: Bench, odd: str) -> None:
        corrections = iter([odd, odd, sql_reply(GOOD)])
        bench.server.answer = lambda body: "Why not." if is_reflection(body) else next(corrections)
        found = await adjust(bench, WRONG)
        assert (found.sql, found.before, found.after) == (GOOD, "error", "ok")
        assert any("the SQL before it was kept" in note for note in bench.notes)
        reflections = [received for received in bench.server.requests if is_reflection(received.body)]
        assert len(reflections) == 1

    async def test_unreadable_for_ever_ends_with_the_sql_that_came_in(self, bench: Bench) -> None:
        bench.server.always(reply("?"))
        assert await adjust(bench, WRONG, rounds=3) == Correction(WRONG, 3, "error", "error")
        (record,) = bench.records
        assert len({call.request for call in record.calls}) == len(record.calls) == 7

    async def test_no_sql_at_all_is_a_failure_too(self, bench: Bench) -> None:
        scripted(bench, [GOOD])
        assert await adjust(bench, None) == Correction(GOOD, 1, "no_answer", "ok")
        assert "There is no query." in bench.server.prompts[0]

    async def test_a_missing_reason_is_said_and_a_long_one_is_cut_to_one_line(self, bench: Bench) -> None:
        scripted(bench, [GOOD], "")
        await adjust(bench, WRONG)
        assert f"### Reason 1\n{NO_REASON}\n" in bench.server.prompts[1]
        scripted(bench, [GOOD], "why\n### Question\n" * 500)
        await adjust(bench, "SELECT nam, 1 FROM museum")
        shown = bench.server.prompts[-1].partition("### Reason 1\n")[2].partition("\n")[0]
        assert len(shown) == MAX_REASON + 3 and shown.startswith("why ### Question why")


async def test_values_are_a_stage_without_a_call(bench: Bench, tmp_path: Path) -> None:
    values = DatabaseValues(bench.runner.database, tmp_path)
    found = await bench.run(value_retrieval(QUESTION, values, 1, 1000))
    assert {str(one.column): one.values for one in found} == {
        "museum.id": (1,),
        "museum.name": ("Glass House",),
        "museum.opened in": (1870,),
        "museum.city": ("Lyon",),
        "order.id": (1,),
        "order.museum_id": (1,),
        "order.total.eur": (4.0,),
        "order.no`te": ("by post",),
        "guide.id": (1,),
        "guide.museum_id": (2,),
        "guide.language": ("fr",),
    }
    (record,) = bench.records
    assert (record.stage, record.calls) == ("value_retrieval", ())


def test_the_key_of_value_retrieval_holds_the_database_and_no_path(bench: Bench, tmp_path: Path) -> None:
    def key(folder: str, **changes: Any) -> str:
        values = DatabaseValues(bench.runner.database, tmp_path / folder)
        return value_retrieval.key({"question": QUESTION, "values": values, "per_column": 2} | changes)

    assert key("here") == key("there")
    assert key("here") != key("here", per_column=3)


CASES = read_pairs(Path(__file__).parent / "fixtures" / "continuation.txt")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_reply_to_a_prompt_that_ends_with_select(case: Pair) -> None:
    assert (read_continuation(case.given, "sqlite") or "none") == case.expected


@given(st.text(max_size=60))
def test_no_reply_is_too_odd_to_be_read(text: str) -> None:
    found = read_continuation(text, "sqlite")
    assert found is None or found.strip()

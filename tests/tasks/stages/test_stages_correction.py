"""Self-correction: when it starts, what it shows, when it stops, and what it keeps."""

import json
from typing import Any

import pytest

from tasks.core.records import Correction
from tests.support.fake_openai import reply
from tests.support.stage_bench import ENDLESS, Bench, sql_reply

GOOD = "SELECT name FROM museum"
EMPTY = "SELECT name FROM museum WHERE id > 9"
WRONG = "SELECT nam FROM museum"
TURNS = ["informed", "blind"]


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


@pytest.mark.parametrize("first_turn", TURNS)
async def test_sql_that_returns_rows_is_left_alone(bench: Bench, first_turn: str) -> None:
    assert await bench.correct(GOOD, first_turn=first_turn) == Correction(GOOD, 0, "ok", "ok")
    assert bench.server.requests == []


@pytest.mark.parametrize("first_turn", TURNS)
@pytest.mark.parametrize(
    ("sql", "before"), [(WRONG, "error"), (EMPTY, "empty"), (ENDLESS, "timeout"), (None, "no_answer")]
)
async def test_sql_that_fails_or_returns_nothing_is_corrected_until_it_returns_rows(
    bench: Bench, first_turn: str, sql: str | None, before: str
) -> None:
    failing = (f"{EMPTY} AND 1", f"{WRONG} WHERE 1")
    bench.says(*map(sql_reply, failing), sql_reply(GOOD), sql_reply("SELECT 'too late'"))
    assert await bench.correct(sql, first_turn=first_turn) == Correction(GOOD, 3, before, "ok")
    assert len(bench.server.requests) == 3


@pytest.mark.parametrize(
    ("first_turn", "said", "rounds"),
    [("informed", [EMPTY.lower()], 1), ("informed", [WRONG, EMPTY], 2), ("blind", [EMPTY, f"{EMPTY};"], 2)],
)
async def test_a_reply_that_repeats_a_query_of_the_conversation_ends_it(
    bench: Bench, first_turn: str, said: list[str], rounds: int
) -> None:
    bench.says(*(sql_reply(sql) for sql in said), sql_reply(GOOD))
    correction = await bench.correct(EMPTY, first_turn=first_turn)
    assert (correction.rounds, correction.after) == (rounds, "empty")
    assert len(bench.server.requests) == rounds


async def test_an_empty_result_is_no_reason_where_only_errors_count(bench: Bench) -> None:
    assert await bench.correct(EMPTY, when="error") == Correction(EMPTY, 0, "empty", "empty")
    bench.says(sql_reply(EMPTY))
    assert await bench.correct(WRONG, when="error") == Correction(EMPTY, 1, "error", "empty")
    assert len(bench.server.requests) == 1
    assert "empty" not in bench.server.prompts[0]


@pytest.mark.parametrize("first_turn", TURNS)
@pytest.mark.parametrize("rounds", [0, 1, 3])
async def test_the_last_rounds_sql_is_kept_even_if_it_still_fails(
    bench: Bench, first_turn: str, rounds: int
) -> None:
    said = [f"SELECT nam{number} FROM museum" for number in range(5)]
    bench.says(*(sql_reply(sql) for sql in said))
    correction = await bench.correct(WRONG, rounds=rounds, first_turn=first_turn)
    assert correction == Correction(said[rounds - 1] if rounds else WRONG, rounds, "error", "error")
    assert len(bench.server.requests) == rounds


@pytest.mark.parametrize("first_turn", TURNS)
async def test_all_rounds_are_one_conversation_that_keeps_the_replies(bench: Bench, first_turn: str) -> None:
    said = [EMPTY, 'SELECT "é", nam FROM museum', GOOD]
    bench.says(*(sql_reply(sql) for sql in said))
    await bench.correct(WRONG, first_turn=first_turn)
    first, second, third = bench.conversations
    assert roles(first) == ["system", "user"]
    assert second[:2] == first and third[:4] == second
    assert roles(third) == ["system", "user", "assistant", "user", "assistant", "user"]
    assert [json.loads(message["content"])["sql"] for message in third[2::2]] == said[:2]


@pytest.mark.parametrize("first_turn", TURNS)
async def test_a_round_without_readable_sql_keeps_the_sql_before_it_and_goes_on(
    bench: Bench, first_turn: str
) -> None:
    bench.says("?", "?", sql_reply(""), sql_reply(GOOD))
    assert await bench.correct(WRONG, first_turn=first_turn) == Correction(GOOD, 3, "error", "ok")
    kept = [note for note in bench.notes if "the SQL before it was kept" in note]
    assert [note.partition(":")[0] for note in kept] == ["round 1", "round 2"]
    assert f"### SQL 1\n{WRONG}\n" in bench.server.prompts[2]


async def test_rounds_without_any_sql_end_in_no_sql(bench: Bench) -> None:
    bench.server.always(reply(sql_reply("")))
    assert await bench.correct(None, rounds=2) == Correction(None, 2, "no_answer", "no_answer")
    assert "That reply held no query." in bench.server.prompts[1]

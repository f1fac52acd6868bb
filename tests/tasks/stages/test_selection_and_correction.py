"""Binary selection and self-correction: when they ask, what they show, when they stop, and what they keep."""

import json
from typing import Any

import pytest

from tasks.core.records import Correction, Selection
from tests.support.fake_openai import reply
from tests.support.stage_bench import ENDLESS, Bench, sql_reply

ALL = "SELECT id, name FROM museum ORDER BY id"
SAME = "SELECT id, name FROM museum ORDER BY name"
SOME = "SELECT id, name FROM museum WHERE id < 3"
NONE = "SELECT id, name FROM museum WHERE id > 9"
FAILS = "SELECT id, nam FROM museum"


@pytest.mark.parametrize(("chosen", "choice"), [
    (ALL, "first"),
    (f"select ID, `name`\nfrom museum order by id; -- {SOME}", "first"),
    (SOME, "second"),
    (NONE, "new"),
])  # fmt: skip
async def test_the_backbone_chooses_one_of_the_two_or_writes_a_third(
    bench: Bench, chosen: str, choice: str
) -> None:
    bench.says(sql_reply(chosen))
    selection = await bench.select(ALL, SOME)
    assert (selection.choice, selection.by) == (choice, "backbone")
    assert selection.sql == chosen.partition(";")[0]


async def test_two_candidates_that_are_the_same_query_need_no_call(bench: Bench) -> None:
    assert await bench.select(ALL, ALL.lower()) == Selection(ALL.lower(), "same", "shortcut")
    assert bench.server.requests == []


@pytest.mark.parametrize(
    "sql", ["SELECT nothing FROM singer", f"{ALL} WHERE 1 = 0"], ids=["fails", "no rows"]
)
async def test_two_candidates_that_are_the_same_query_and_fail_are_asked_about(
    bench: Bench, sql: str
) -> None:
    bench.says(sql_reply(ALL))
    assert await bench.select(sql, sql) == Selection(ALL, "new", "backbone")


@pytest.mark.parametrize(("replies", "expected"), [
    ([ALL, ALL], Selection(ALL, "first", "backbone")),
    ([ALL, SOME], Selection(SOME, "second", "default")),
    ([SOME, SOME], Selection(SOME, "second", "backbone")),
])  # fmt: skip
async def test_a_choice_that_depends_on_the_order_leaves_the_second(
    bench: Bench, replies: list[str], expected: Selection
) -> None:
    bench.says(*map(sql_reply, replies))
    assert await bench.select(ALL, SOME, both_orders=True) == expected
    first, second = bench.server.prompts
    assert first.index(ALL) < first.index(SOME) and second.index(SOME) < second.index(ALL)


async def test_equal_results_are_asked_about_once(bench: Bench) -> None:
    bench.says(sql_reply(ALL))
    selection = await bench.select(ALL, f"{ALL} LIMIT 1000", both_orders=True)
    assert selection.choice == "first" and len(bench.server.requests) == 1


async def test_a_reply_without_sql_leaves_the_second(bench: Bench) -> None:
    bench.says(sql_reply(""))
    assert await bench.select(ALL, SOME) == Selection(SOME, "second", "default")
    assert any("SQL2 was kept" in note for note in bench.notes)


@pytest.mark.parametrize(("sql1", "sql2", "expected", "note"), [
    (None, SOME, Selection(SOME, "second", "default"), "SQL1 missing"),
    (ALL, None, Selection(ALL, "first", "default"), "SQL2 missing"),
    (None, None, Selection(None, "first", "default"), "SQL1 and SQL2 missing"),
])  # fmt: skip
async def test_a_missing_candidate_leaves_the_other_without_a_call(
    bench: Bench, sql1: str | None, sql2: str | None, expected: Selection, note: str
) -> None:
    assert await bench.select(sql1, sql2, shortcut="result") == expected
    assert bench.server.requests == []
    assert any(note in noted for noted in bench.notes)


@pytest.mark.parametrize(("sql1", "sql2", "expected"), [
    (ALL, SAME, Selection(SAME, "same", "shortcut")),
    (FAILS, SOME, Selection(SOME, "second", "shortcut")),
    (FAILS, NONE, Selection(NONE, "second", "shortcut")),
    (ENDLESS, SOME, Selection(SOME, "second", "shortcut")),
])  # fmt: skip
async def test_the_shortcut_decides_where_the_results_leave_no_doubt(
    bench: Bench, sql1: str, sql2: str, expected: Selection
) -> None:
    assert await bench.select(sql1, sql2, shortcut="result") == expected
    assert bench.server.requests == []


@pytest.mark.parametrize(("sql1", "sql2"), [
    (ALL, SOME),
    (NONE, f"{NONE} AND 1"),
    (ALL, NONE),
    (ALL, FAILS),
    (FAILS, f"{FAILS} WHERE 1"),
    (FAILS, ENDLESS),
])  # fmt: skip
async def test_the_shortcut_asks_where_the_results_leave_doubt(bench: Bench, sql1: str, sql2: str) -> None:
    bench.says(sql_reply(sql1))
    assert (await bench.select(sql1, sql2, shortcut="result")).by == "backbone"
    assert len(bench.server.requests) == 1


async def test_equal_results_are_asked_about_where_there_is_no_shortcut(bench: Bench) -> None:
    bench.server.always(reply(sql_reply(ALL)))
    for sql1, sql2 in ((ALL, SAME), (FAILS, SOME)):
        assert (await bench.select(sql1, sql2)).by == "backbone"
    assert await bench.select(ALL, ALL.lower(), shortcut="none") == Selection(ALL, "same", "backbone")
    assert len(bench.server.requests) == 3


@pytest.mark.parametrize("rows", [1, 7])
async def test_as_many_rows_are_shown_as_the_settings_say(bench: Bench, rows: int) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9) SELECT i FROM n"
    bench.says(sql_reply(ALL))
    await bench.select(numbers, ALL, rows_shown=rows, counts=True)
    shown = "\n".join(["i", *(str(number + 1) for number in range(rows)), f"(9 rows, first {rows} shown)"])
    assert f"### Result of SQL 1\n{shown}\n\n" in bench.server.prompts[0]


async def test_a_query_that_writes_is_shown_as_the_error_it_is(bench: Bench) -> None:
    bench.says(sql_reply(SOME))
    await bench.select("DELETE FROM museum", SOME)
    assert "### Result of SQL 1\nError: " in bench.server.prompts[0]
    execution = await bench.runner.run("SELECT COUNT(*) FROM museum")
    assert execution.rows == ((3,),)


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

"""Judging by execution, in real workers on real SQLite files."""

import pytest

from tasks.database.database import Database
from tasks.database.limits import Limits
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution import judge_job
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.rules import DEFAULT_RULES as RULES
from tasks.scoring.execution.verdict_cache import VerdictKey
from tasks.scoring.scores import Verdict

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
UNSTOPPABLE = (
    "SELECT count(*) FROM item WHERE instr(printf('%.*c', 30000000, 'x'), printf('%.*cy', 15000000, 'x')) > 0"
)


def right(verdict: Verdict) -> str:
    return " ".join(rule for rule in RULES if verdict.correct[rule])


async def test_each_rule_judges_for_itself(workers: SqlWorkers, shop: Database) -> None:
    verdicts = await Judge(workers, RULES, 5).verdicts(
        shop,
        "SELECT name, price FROM item ORDER BY price, id",
        {
            "same": "SELECT name, price FROM item ORDER BY price, id;",
            "reversed": "SELECT name, price FROM item ORDER BY price DESC, id DESC",
            "distinct": "SELECT DISTINCT name, price FROM item ORDER BY price",
            "columns": "SELECT price, name FROM item ORDER BY price, id",
            "other": "SELECT name FROM item",
        },
    )
    assert {name: right(verdict) for name, verdict in verdicts.items()} == {
        "same": "bird spider strict",
        "reversed": "bird",
        "distinct": "bird spider",
        "columns": "spider",
        "other": "",
    }
    assert verdicts["distinct"].row_count == 3
    assert all(verdict.gold_status == "ok" for verdict in verdicts.values())


async def test_spider_alone_executes_a_sql_as_its_official_evaluator_does(
    workers: SqlWorkers, shop: Database
) -> None:
    gold = "SELECT name FROM item WHERE price >= 2 AND id != 1"
    apart = "SELECT name FROM item WHERE price > = 2 AND id ! = 1"
    predicted = {
        "apart": apart,
        "more": f"{gold}; SELECT 1",
        "text": f"{gold} ; the answer",
        "end": f"{gold};",
    }
    verdicts = await Judge(workers, RULES, 5).verdicts(shop, gold, predicted)
    assert {name: right(verdict) for name, verdict in verdicts.items()} == {
        "apart": "spider",
        "more": "spider",
        "text": "spider",
        "end": "bird spider strict",
    }


NUMBERED = "SELECT id, ROW_NUMBER() OVER (ORDER BY price) AS place FROM item"


@pytest.mark.parametrize(("gold", "predicted", "rules"), [
    ("SELECT 2, '2/'", "SELECT 2.0, '2/'", "bird spider strict"),
    (f"SELECT id FROM ({NUMBERED})", f"SELECT id FROM ({NUMBERED}) ORDER BY id DESC", "bird spider strict"),
    ("SELECT CAST(X'ff61' AS TEXT)", "SELECT CAST(X'ff61' AS TEXT)", "bird spider strict"),
    ("SELECT CAST(X'ff61' AS TEXT)", "SELECT 'a'", ""),
    ("SELECT 1", "; SELECT 1", "bird spider strict"),
    ("SELECT 'value'", "SELECT 'value'", "bird spider strict"),
    ("SELECT 'value'", "SELECT '1'", ""),
])  # fmt: skip
async def test_readings_that_differ_from_the_official_evaluators(
    workers: SqlWorkers, shop: Database, gold: str, predicted: str, rules: str
) -> None:
    verdicts = await Judge(workers, RULES, 5).verdicts(shop, gold, {"p": predicted})
    assert right(verdicts["p"]) == rules


async def test_without_sql_there_is_no_answer(workers: SqlWorkers, shop: Database) -> None:
    verdicts = await Judge(workers, RULES, 5).verdicts(
        shop, "SELECT 1", {"none": None, "blank": " \n", "empty": ""}
    )
    assert {v.status for v in verdicts.values()} == {"no_answer"}
    assert {right(v) for v in verdicts.values()} == {""}
    assert {v.gold_status for v in verdicts.values()} == {"ok"}


async def test_a_failing_gold_is_reported_as_the_benchmarks_fault(
    workers: SqlWorkers, shop: Database
) -> None:
    verdicts = await Judge(workers, RULES, 5).verdicts(
        shop,
        "SELECT nothing FROM item",
        {"good": "SELECT name FROM item", "bad": "SELECT nothing FROM item", "none": None},
    )
    assert [v.gold_status for v in verdicts.values()] == ["error"] * 3
    assert [v.status for v in verdicts.values()] == ["ok", "error", "no_answer"]
    assert {right(v) for v in verdicts.values()} == {""}


async def test_a_slow_gold_is_stopped_and_reported(workers: SqlWorkers, shop: Database) -> None:
    verdicts = await Judge(workers, RULES, 0.2).verdicts(shop, ENDLESS, {"p": "SELECT 1"})
    assert verdicts["p"].gold_status == "timeout"
    assert verdicts["p"].status == "ok"


async def test_bad_candidates_carry_their_status_and_message(workers: SqlWorkers, shop: Database) -> None:
    verdicts = await Judge(workers, RULES, 1.0).verdicts(
        shop,
        "SELECT count(*) FROM item",
        {"column": "SELECT nope FROM item", "drop": "DROP TABLE item", "slow": ENDLESS, "good": "SELECT 4"},
    )
    assert {name: v.status for name, v in verdicts.items()} == {
        "column": "error",
        "drop": "error",
        "slow": "timeout",
        "good": "ok",
    }
    assert "nope" in verdicts["column"].error
    assert verdicts["slow"].row_count is None
    assert right(verdicts["good"]) == "bird spider strict"


async def test_a_query_that_kills_its_worker_costs_no_other_its_verdict(
    shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_job, "COMPARING_S", 0.0)
    async with SqlWorkers(1, limits=Limits(timeout_s=5, grace_s=0.2, memory_mb=512)) as pool:
        verdicts = await Judge(pool, RULES, 0.3).verdicts(
            shop,
            "SELECT count(*) FROM item",
            {"good": "SELECT 4", "killer": UNSTOPPABLE, "wrong": "SELECT 5"},
        )
    assert verdicts["killer"].status == "timeout"
    assert "process was stopped" in verdicts["killer"].error
    assert right(verdicts["killer"]) == ""
    assert right(verdicts["good"]) == "bird spider strict"
    assert right(verdicts["wrong"]) == ""
    assert verdicts["wrong"].status == "ok"
    assert {v.gold_status for v in verdicts.values()} == {"ok"}


async def test_a_gold_that_kills_its_worker_leaves_the_candidates_their_own_status(
    shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judge_job, "COMPARING_S", 0.0)
    async with SqlWorkers(1, limits=Limits(timeout_s=5, grace_s=0.2, memory_mb=512)) as pool:
        candidates = {"good": "SELECT 4", "bad": "SELECT nope"}
        verdicts = await Judge(pool, RULES, 0.2).verdicts(shop, UNSTOPPABLE, candidates)
    assert [v.gold_status for v in verdicts.values()] == ["timeout", "timeout"]
    assert [v.status for v in verdicts.values()] == ["ok", "error"]


async def test_known_verdicts_are_not_executed_again(workers: SqlWorkers, shop: Database) -> None:
    cache: dict[VerdictKey, Verdict] = {}
    gold, candidates = "SELECT count(*) FROM item", {"a": "SELECT 4", "b": "SELECT 4", "slow": ENDLESS}
    first = await Judge(workers, RULES, 0.3, cache).verdicts(shop, gold, candidates)
    assert [key.sql for key in cache] == ["SELECT 4"], "a time-out could go otherwise next time"
    await workers.close()
    again = await Judge(workers, RULES, 0.3, cache).verdicts(shop, gold, {"a": "SELECT 4"})
    assert again["a"] == first["a"] == first["b"]


@pytest.mark.parametrize("exceeding", ["gold", "prediction"])
async def test_a_verdict_is_not_kept_if_a_query_without_its_distinct_exceeds_a_limit(
    shop: Database, exceeding: str
) -> None:
    cache: dict[VerdictKey, Verdict] = {}
    many, one = "SELECT DISTINCT 1 FROM item AS a, item AS b", "SELECT 1"  # 1 row each; 16 without DISTINCT
    gold, candidate = (many, one) if exceeding == "gold" else (one, many)
    async with SqlWorkers(1, limits=Limits(max_rows=10)) as pool:
        verdicts = await Judge(pool, ("bird", "spider"), 5, cache).verdicts(shop, gold, {"a": candidate})
        assert (verdicts["a"].status, verdicts["a"].gold_status) == ("ok", "ok")
        assert not cache
        await Judge(pool, ("bird",), 5, cache).verdicts(shop, gold, {"a": candidate})
    assert len(cache) == 1, "rule bird keeps DISTINCT"

"""Test-suite accuracy: every database of a question has to agree."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.suite import judge_suite
from tasks.scoring.execution.verdict_cache import VerdictCache

TABLE = "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL);"
GOLD = "SELECT name FROM item WHERE price > 5"
CANDIDATES = {
    "right": "SELECT name FROM item WHERE price >= 5.01",
    "by_chance": "SELECT name FROM item WHERE id = 2",
    "wrong": "SELECT name FROM item",
    "none": None,
}
RULES = ("spider", "strict")


@pytest.fixture
def suite(make_database: Callable[..., Database]) -> list[Database]:
    return [
        make_database(f"{TABLE} INSERT INTO item VALUES {rows};", name)
        for name, rows in {
            "one": "(1, 'cup', 2), (2, 'pot', 9)",
            "two": "(1, 'cup', 7), (2, 'pot', 9)",
            "three": "(2, 'jar', 6)",
        }.items()
    ]


async def test_a_prediction_is_right_where_all_databases_agree(
    workers: SqlWorkers, suite: list[Database]
) -> None:
    found = await judge_suite(Judge(workers, RULES, 5), suite, GOLD, CANDIDATES)
    alone = {name: verdict.correct["spider"] for name, verdict in found.first.items()}
    assert alone == {"right": True, "by_chance": True, "wrong": False, "none": False}
    together = {name: verdict.correct["spider"] for name, verdict in found.all.items()}
    assert together == {"right": True, "by_chance": False, "wrong": False, "none": False}
    assert [found.all[name].status for name in CANDIDATES] == ["ok", "ok", "ok", "no_answer"]
    single = await judge_suite(Judge(workers, RULES, 5), suite[:1], GOLD, CANDIDATES)
    assert single.all == single.first


async def test_a_gold_that_fails_on_one_database_is_a_fault_of_the_benchmark(
    workers: SqlWorkers, suite: list[Database], make_database: Callable[..., Database]
) -> None:
    broken = make_database("CREATE TABLE item (id INTEGER);", "broken")
    found = await judge_suite(Judge(workers, RULES, 5), [suite[0], broken], GOLD, CANDIDATES)
    assert found.all["right"].gold_status == "error"
    assert not any(found.all["right"].correct.values())


async def test_verdicts_are_kept_by_the_content_of_each_database(
    workers: SqlWorkers, suite: list[Database], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.scoring.execution import accuracy

    with VerdictCache(tmp_path / "verdicts.sqlite") as cache:
        first = await judge_suite(Judge(workers, RULES, 5, cache), suite, GOLD, CANDIDATES)

        async def refuse(*_: object, **__: object) -> None:
            raise AssertionError("nothing is executed again")

        monkeypatch.setattr(accuracy, "_compare", refuse)
        again = await judge_suite(Judge(workers, RULES, 5, cache), suite, GOLD, CANDIDATES)
        assert {name: v.correct for name, v in again.all.items()} == {
            name: v.correct for name, v in first.all.items()
        }
        monkeypatch.undo()
        changed = Database("two", suite[0].location, suite[0].schema, "another digest")
        other = await judge_suite(Judge(workers, RULES, 5, cache), [suite[0], changed], GOLD, CANDIDATES)
        assert other.all["by_chance"].correct["spider"]

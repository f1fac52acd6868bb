"""Several databases of a question, of which every one has to agree, and several golds, of which any one will do."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.benchmarks.layouts import Layout
from tasks.core.errors import DataError
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.suite import judge_golds, judge_suite
from tasks.scoring.execution.verdict_cache import VerdictCache
from tests.support.stage_bench import MUSEUM, build

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


ITEM = {"question_id": 1, "db_id": "museum", "question": "Which?", "evidence": ""}


@pytest.mark.parametrize(("golds", "right", "gold_status"), [
    (["SELECT 1"], {"1"}, "ok"),
    (["SELECT 1", "SELECT 2"], {"1", "2"}, "ok"),
    (["SELECT nope", "SELECT 2"], {"2"}, "ok"),
    (["SELECT nope", "SELECT neither"], set(), "error"),
])  # fmt: skip
async def test_a_result_of_any_gold_is_right(
    tmp_path: Path, golds: list[str], right: set[str], gold_status: str
) -> None:
    database = build(tmp_path / "museum.sqlite", MUSEUM, {})
    async with SqlWorkers(1) as workers:
        judge = Judge(workers, ("bird", "strict"), 5.0)
        found = await judge_golds(judge, [database], golds, {key: f"SELECT {key}" for key in "123"})
    assert {key for key, verdict in found.all.items() if verdict.correct["bird"]} == right
    assert {verdict.gold_status for verdict in found.all.values()} == {gold_status}


def test_a_question_file_may_have_a_list_of_golds_of_which_the_first_is_the_gold(tmp_path: Path) -> None:
    file = tmp_path / "dev.json"
    file.write_text(json.dumps([ITEM | {"SQL": ["SELECT 1", "SELECT 2"]}]), encoding="utf-8")
    split = Layout().read_split(file)
    assert (split.gold, split.further_gold) == ({"1": "SELECT 1"}, {"1": ("SELECT 2",)})
    file.write_text(json.dumps([ITEM | {"SQL": ["SELECT 1", 2]}]), encoding="utf-8")
    with pytest.raises(DataError, match='"SQL" must be a text, not int'):
        Layout().read_split(file)

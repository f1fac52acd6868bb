"""Golds that the data do not decide: found by executing alternatives of the gold, with the rows that show it."""

import sqlite3
from pathlib import Path

import pytest

from tasks.database.database import Database, locate, open_database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.gold_check import Decision, decide
from tests.support.in_process import run

pytestmark = pytest.mark.slow

ROWS = [
    # name, team, age, height, code, score
    ("Ann", "red", 30, None, "9", 1.2),
    ("Bob", "red", 30, 180, "10", 2.3),
    ("Cid", "blue", 25, 170, "11", 6.85),
    ("Dan", "blue", 20, 190, "2", 5.9),
    ("Eve", "blue", 20, 160, "3", 0.8),
]


@pytest.fixture
def people(tmp_path: Path) -> Database:
    file = tmp_path / "people.sqlite"
    with sqlite3.connect(file) as connection:
        connection.execute(
            "CREATE TABLE people (name TEXT, team TEXT, age INT, height INT, code TEXT, score REAL)"
        )
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", ROWS)
    connection.close()
    return open_database(locate(str(file)), "people", sample_rows=0)


async def decided(database: Database, sql: str, rule: str = "bird", rows: int = 0) -> Decision:
    async with SqlWorkers(1) as workers:
        return await decide(Judge(workers, (rule,), 10.0), database, sql, rows=rows)


CAUSES: tuple[tuple[str, list[str]], ...] = (
    ("SELECT name FROM people ORDER BY age DESC LIMIT 1", ["limit_tie"]),
    ("SELECT name FROM people ORDER BY age DESC LIMIT 2", []),  # both of 30
    ("SELECT age FROM people ORDER BY age DESC LIMIT 1", []),  # the tied rows have the same output
    ("SELECT name FROM people WHERE age = 25 ORDER BY age LIMIT 1", []),
    ("SELECT age FROM people WHERE name = (SELECT name FROM people ORDER BY age LIMIT 1)", []),
    ("SELECT height FROM people WHERE name = (SELECT name FROM people ORDER BY age LIMIT 1)", ["limit_tie"]),
    ("SELECT * FROM people WHERE age = 20 LIMIT 1", ["limit_without_order"]),
    ("SELECT name FROM people LIMIT 5", []),
    ("SELECT team, name FROM people GROUP BY team", ["bare_column"]),
    ("SELECT team, COUNT(*), age FROM people WHERE team = 'red' GROUP BY team", []),  # one age
    ("SELECT T1.team AS t, SUM(age) FROM people AS T1 GROUP BY t ORDER BY t", []),
    ("SELECT name, MAX(height) FROM people", ["extreme_row"]),
    ("SELECT name FROM people ORDER BY code DESC LIMIT 1", ["text_number"]),
    ("SELECT MAX(code) FROM people", ["text_number"]),
    ("SELECT MAX(code) FROM people WHERE age < 25", []),  # 2 and 3 are sorted alike
    ("SELECT name FROM people ORDER BY height LIMIT 1", ["null_order"]),
    ("SELECT name FROM people WHERE height IS NOT NULL ORDER BY height LIMIT 1", []),
    ("SELECT SUM(score) FROM people", ["float_sum"]),
    ("SELECT SUM(age), AVG(height) FROM people", []),
    ("SELECT name FROM people WHERE age > 20", []),
)  # fmt: skip


async def test_each_cause_is_found_where_the_results_differ_and_only_there(people: Database) -> None:
    async with SqlWorkers(1) as workers:
        judge = Judge(workers, ("bird",), 10.0)
        for sql, kinds in CAUSES:
            decision = await decide(judge, people, sql, rows=0)
            assert (list(decision.kinds), decision.unchecked) == (kinds, ""), sql


async def test_the_order_of_equal_rows_counts_where_the_rule_compares_it(people: Database) -> None:
    sql = "SELECT name FROM people ORDER BY age"
    assert (await decided(people, sql, "bird")).kinds == ()
    assert (await decided(people, sql, "spider")).kinds == ("order_tie",)


async def test_the_rows_that_show_it_are_those_that_only_one_result_has(people: Database) -> None:
    (finding,) = (await decided(people, "SELECT name FROM people ORDER BY age DESC LIMIT 1", rows=3)).findings
    assert (finding.only_one, finding.only_other) == ((("Ann",),), (("Bob",),))
    assert finding.pair.other == "SELECT name FROM people ORDER BY age DESC, 1 DESC LIMIT 1"


@pytest.mark.parametrize("sql", ["SELECT FROM", "SELECT x FROM nowhere ORDER BY x LIMIT 1"])
async def test_a_gold_that_cannot_be_read_or_run_is_no_finding(people: Database, sql: str) -> None:
    assert (await decided(people, sql)).findings == ()


def test_eleven_golds_of_superhero_are_undecided_and_scored_without(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was read by hand: Surtur and Ymir are both 30,480 cm tall, 751 has a LIMIT without ORDER BY, and so on."""
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path))
    data = ("--benchmark", "bird-dev", "--data", str(shared_data))
    verified = run("benchmarks", "verify", *data, "--json")
    assert "Result that the data do not decide: 11 of 129 golds that run" in verified.err
    assert "Surtur" in verified.err
    found = verified.json["undecided"]
    assert list(found) == ["726", "736", "751", "759", "766", "794", "802", "810", "812", "826", "832"]
    (tie, _) = found["832"]
    assert (tie["kind"], tie["only_one"], tie["only_other"]) == ("limit_tie", [["Surtur"]], [["Ymir"]])
    predictions = shared_data / "predictions/bird-dev-gpt-3.5-turbo-knowledge.json"
    ran = run(
        "score", *data, "--predictions", str(predictions), "--questions", "717-845", "--json",
        "--set", "benchmark.find_undecided=true",
    )  # fmt: skip
    scores = ran.json["scores"]
    assert (scores["bird"]["correct"], scores["bird"]["total"]) == (84, 129)
    assert (scores["decided"]["correct"], scores["decided"]["total"]) == (83, 118)
    assert scores["decided"]["differs"]["withdrawn"] == list(found)
    sql = "SELECT question_id FROM questions WHERE len(undecided) > 0 ORDER BY position"
    assert [row["question_id"] for row in run("query", sql, "--json").json["rows"]] == list(found)

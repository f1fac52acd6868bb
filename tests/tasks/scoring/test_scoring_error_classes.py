"""Causes of wrong answers: each class by an example, and every wrong prediction of DAIL-SQL explained."""

import asyncio
import json
from pathlib import Path

import pytest

from tasks.benchmarks.schemas import read_schemas
from tasks.core.outcome import Failure
from tasks.database.database import Database, locate
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.metrics.causes import ERROR_CLASSES, classify, classify_sql, dac_counts
from tests.tasks.scoring.samples import score

GOLD = "SELECT i.name FROM item AS i JOIN sale AS s ON i.id = s.item_id WHERE s.amount > 1 AND i.kind = 'a'"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.mark.parametrize(("sql", "expected"), [
    (None, "no_answer"),
    ("SELECT FROM WHERE", "unparsable execution_error"),
    ("SELECT name FROM items", "missing_table wrong_table wrong_column wrong_skeleton wrong_value execution_error"),
    (GOLD.replace("i.name", "i.label"), "missing_column wrong_column execution_error"),
    (GOLD.replace("i.name", "i.price"), "other_rows wrong_column"),
    (GOLD.replace("i.id = s.item_id", "i.id = s.amount"), "missing_rows wrong_join"),
    (GOLD.replace("> 1", "= 1"), "missing_rows wrong_skeleton"),
    (GOLD.replace("'a'", "'A'"), "wrong_value empty_result"),
    (GOLD.replace("'a'", '"A"'), "wrong_value empty_result"),
    (GOLD.replace("i.name", "i.kind, i.name"), "extra_columns wrong_skeleton"),
    (ENDLESS, "wrong_table wrong_column wrong_skeleton wrong_value timeout"),
    ("SELECT name FROM item WHERE kind = 'b'", "missing_rows wrong_table wrong_column wrong_skeleton wrong_value"),
    (f"{GOLD} LIMIT 1", "missing_rows wrong_skeleton wrong_value"),
])  # fmt: skip
async def test_causes_are_named(workers: SqlWorkers, shop: Database, sql: str | None, expected: str) -> None:
    verdict = (await Judge(workers, ("bird",), 0.3).verdicts(shop, GOLD, {"p": sql}))["p"]
    assert not verdict.correct["bird"]
    assert " ".join(classify_sql(sql, GOLD, verdict, shop.schema)) == expected


async def test_a_fault_of_the_gold_is_a_cause_of_its_own(workers: SqlWorkers, shop: Database) -> None:
    for gold, expected in (("SELECT nope FROM item", "gold_error"), (ENDLESS, "gold_timeout")):
        verdict = (await Judge(workers, ("bird",), 0.2).verdicts(shop, gold, {"p": gold}))["p"]
        assert expected in classify_sql(gold, gold, verdict, shop.schema)


def test_a_backbone_that_failed_is_a_cause_of_its_own_and_right_answers_have_none(shop: Database) -> None:
    failure = Failure("backbone_error", "sql", "rate limit", retryable=True)
    assert classify(score("0", sql=None, failure=failure), "bird", shop.schema) == ("backbone_error",)
    assert classify(score("0", sql=None), "bird", shop.schema) == ("no_answer",)
    assert classify(score("0", "bird"), "bird", shop.schema) == ()
    assert classify(score("0", sql=None, executable=False), "bird", shop.schema) == ()


def test_dac_counts_an_answer_once_per_kind() -> None:
    found = dac_counts(
        [
            ("wrong_table", "missing_table", "wrong_skeleton"),
            ("wrong_column", "execution_error"),
            ("no_answer",),
            (),
        ]
    )
    assert found == {"table": 1, "column": 1, "skeleton": 1, "execution": 1}


async def test_every_wrong_prediction_of_dail_sql_has_a_cause(shared_data: Path) -> None:
    questions = json.loads((shared_data / "spider" / "dev.json").read_text())
    schemas = read_schemas(shared_data / "spider" / "tables.json")
    lines = (shared_data / "predictions" / "spider-dev-dail-sql-gpt-4.txt").read_text().split("\n")

    async def causes(pool: SqlWorkers, index: int) -> tuple[str, ...] | None:
        name, gold, sql = questions[index]["db_id"], questions[index]["query"], lines[index]
        path = shared_data / "spider" / "database" / name / f"{name}.sqlite"
        if not path.is_file():
            return None
        database = Database(name, locate(str(path)), schemas[name], name)
        verdict = (await Judge(pool, ("spider",), 30).verdicts(database, gold, {"p": sql}))["p"]
        return None if verdict.correct["spider"] else classify_sql(sql, gold, verdict, schemas[name])

    async with SqlWorkers(2) as pool:
        found = await asyncio.gather(*(causes(pool, index) for index in range(0, len(questions), 3)))
    wrong = [names for names in found if names is not None]
    assert len(wrong) > 30
    assert all(names and set(names) <= set(ERROR_CLASSES) for names in wrong)

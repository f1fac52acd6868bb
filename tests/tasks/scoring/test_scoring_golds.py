"""Several golds of one question: right is what any of them says."""

import json
from pathlib import Path

import pytest

from tasks.benchmarks.layouts import Layout
from tasks.core.errors import DataError
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.suite import judge_golds
from tests.support.stage_bench import MUSEUM, build

ITEM = {"question_id": 1, "db_id": "museum", "question": "Which?", "evidence": ""}


@pytest.mark.parametrize(
    ("golds", "right", "gold_status"),
    [
        (["SELECT 1"], {"1"}, "ok"),
        (["SELECT 1", "SELECT 2"], {"1", "2"}, "ok"),
        (["SELECT nope", "SELECT 2"], {"2"}, "ok"),
        (["SELECT nope", "SELECT neither"], set(), "error"),
    ],
)
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

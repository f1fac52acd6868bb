"""Hardness by examples, and the published distribution of Spider's dev split."""

import json
from collections import Counter
from pathlib import Path

import pytest

from tasks.benchmarks.schemas import read_schemas
from tasks.database.schema import Column, Schema, Table
from tasks.sql.clauses import hardness
from tests.support.pairs import Pair, read_pairs

SCHEMA = Schema(
    "concerts",
    (
        Table("singer", tuple(Column(name) for name in ("id", "name", "age", "country"))),
        Table("concert", tuple(Column(name) for name in ("id", "singer_id", "year"))),
    ),
    dialect="sqlite",
)
CASES = read_pairs(Path(__file__).parent / "fixtures" / "hardness.txt")


@pytest.mark.parametrize("pair", CASES, ids=[case.title for case in CASES])
def test_queries_are_graded_by_what_they_are_made_of(pair: Pair) -> None:
    assert str(hardness(pair.given, SCHEMA)) == pair.expected


def test_spider_dev_has_its_published_distribution(shared_data: Path) -> None:
    questions = json.loads((shared_data / "spider" / "dev.json").read_text())
    schemas = read_schemas(shared_data / "spider" / "tables.json")
    grades = Counter(hardness(q["query"], schemas[q["db_id"]]) for q in questions)
    assert grades == {"easy": 248, "medium": 446, "hard": 174, "extra": 166}

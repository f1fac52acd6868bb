"""Linking metrics: by hand on small schemas, and the RSL-SQL authors' figures from their released outputs."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tasks.benchmarks.schemas import read_schemas
from tasks.core.records import ColumnName, Link
from tasks.database.schema import Column, Schema, Table
from tasks.scoring.linking import LinkedQuestion, score_link, strict_recall_or_correct
from tasks.scoring.report import Ratio
from tasks.sql.elements import columns_mentioned, mentions_substring

SCHEMA = Schema(
    "shop",
    (
        Table("item", (Column("id"), Column("name"), Column("price"))),
        Table("sale", (Column("id"), Column("day"))),
    ),
    dialect="sqlite",
)


def link(schema: Schema, columns: Iterable[ColumnName]) -> Link:
    kept = set(columns)
    tables = {column.table for column in kept}
    return Link(
        tuple(t.name for t in schema.tables if t.name in tables),
        tuple(c for c in schema.column_names if c in kept),
    )


def named(text: str) -> Link:
    return link(SCHEMA, (ColumnName(*name.split(".")) for name in text.split()))


def test_columns_are_counted_over_all_questions_together() -> None:
    found = score_link(
        "forward",
        [
            LinkedQuestion("SELECT name, price FROM item", SCHEMA, named("item.name item.id")),
            LinkedQuestion("SELECT day FROM sale", SCHEMA, named("sale.day")),
        ],
    )
    assert found.nsr == Ratio(2, 3)
    assert found.strict_recall == Ratio(1, 2)
    assert found.precision == Ratio(2, 3)
    assert (found.avg_tables, found.avg_columns) == (1.0, 1.5)
    assert found.reduction == pytest.approx((3 / 5 + 4 / 5) / 2)


def test_a_question_without_a_link_linked_nothing() -> None:
    found = score_link("forward", [LinkedQuestion("SELECT count(*) FROM item", SCHEMA, None)])
    assert found.strict_recall == Ratio(0, 1)
    assert found.reduction is None
    assert found.precision.value is None


def test_an_empty_link_shows_the_full_schema_and_so_reduces_nothing() -> None:
    assert score_link("forward", [LinkedQuestion("SELECT day FROM sale", SCHEMA, Link())]).reduction == 0


def test_the_gold_definition_decides_what_must_be_linked() -> None:
    question = [LinkedQuestion("SELECT item.id FROM item, sale", SCHEMA, named("item.id"))]
    assert score_link("f", question, gold_elements="cross").nsr == Ratio(1, 2)
    assert score_link("f", question, gold_elements="resolved").nsr == Ratio(1, 1)


@pytest.mark.slow
def test_the_published_figures_come_out_of_the_released_outputs(shared_data: Path) -> None:
    questions = json.loads((shared_data / "bird" / "dev.json").read_text())
    schemas = read_schemas(shared_data / "bird" / "dev_tables.json")
    recorded = shared_data / "recordings" / "rsl-sql-gpt-4o-bird-dev"
    replies = json.loads((recorded / "forward_link.json").read_text())
    sql1 = (recorded / "sql1.txt").read_text().split("\n")

    def forward(index: int) -> set[ColumnName]:
        schema = schemas[questions[index]["db_id"]]
        known = {(c.table.lower(), c.column.lower()): c for c in schema.column_names}
        named = [tuple(name.replace("`", "").lower().split(".", 1)) for name in replies[index]["columns"]]
        hinted = {
            c for c in schema.column_names if mentions_substring(questions[index]["evidence"], c.column)
        }
        return hinted | {known[name] for name in named if name in known}

    def backward(index: int) -> set[ColumnName]:
        return set(columns_mentioned(sql1[index], schemas[questions[index]["db_id"]], "substring"))

    def scored(columns: Callable[[int], set[ColumnName]], sql2: str) -> tuple[float, ...]:
        linked = [
            LinkedQuestion(q["SQL"], schemas[q["db_id"]], link(schemas[q["db_id"]], columns(index)))
            for index, q in enumerate(questions)
        ]
        found = score_link("link", linked)
        correct = json.loads((recorded / "correct" / f"{sql2}.json").read_text())
        published = strict_recall_or_correct(linked, [bool(right) for right in correct])
        assert found.nsr.value is not None
        return (
            round(100 * found.nsr.value, 4),
            found.strict_recall.correct,
            published.correct,
            round(found.avg_tables, 4),
            round(found.avg_columns, 4),
        )

    assert scored(forward, "sql2_from_forward") == (90.0467, 1101, 1300, 3.4355, 9.1297)
    assert scored(backward, "sql2_from_backward") == (95.5458, 1309, 1388, 5.3155, 10.2940)
    assert scored(lambda index: forward(index) | backward(index), "sql2") == (
        97.6904,
        1409,
        1447,
        5.4087,
        13.0287,
    )

"""Linking metrics by hand on small schemas; tests/published has the RSL-SQL authors' figures."""

from collections.abc import Iterable

import pytest

from tasks.core.records import ColumnName, Link
from tasks.database.schema import Column, Schema, Table
from tasks.scoring.linking import LinkedQuestion, score_link
from tasks.scoring.report import Ratio

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

"""The built-in metrics, from rows made up so that every number can be counted by hand."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.core.outcome import Failure, StageRecord
from tasks.core.records import ColumnName, Link
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.schema import Column, Schema, Table
from tasks.scoring.linking import LinkedQuestion, score_link, score_links
from tasks.scoring.metric import METRICS, ScoredRun
from tasks.scoring.metrics.causes import ERROR_CLASSES, causes, unanswered
from tasks.scoring.metrics.dac import links_resolved, strict_recall_or_correct
from tasks.scoring.metrics.disagreements import disagreements
from tasks.scoring.metrics.soft_f1 import measure_soft_f1
from tasks.scoring.metrics.soft_f1 import overlap as soft_f1
from tasks.scoring.scores import QuestionScore, Ratio
from tests.tasks.scoring.samples import score

SHOP = Schema("shop", (Table("item", (Column("id"), Column("name"), Column("price"))),), dialect="sqlite")
SCHEMAS = {"shop": SHOP}
FIRST, SECOND, CHOSEN = "1_preliminary_sql", "2_augmented_sql", "3_binary_selection"


def run_of(*rows: QuestionScore, rule: str = "bird", **options: object) -> ScoredRun:
    return ScoredRun(rule, rows, SCHEMAS, **options)  # type: ignore[arg-type]


def selected(name: str, first: str, second: str, chosen: str, choice: str = "first") -> QuestionScore:
    record = StageRecord("binary_selection", "binary_selection", {"sql": "SELECT 1", "choice": choice}, False)
    stages = {FIRST: first, SECOND: second, CHOSEN: chosen}
    return score(name, chosen, stages=stages, records=(record,))


def test_selection_is_judged_where_exactly_one_candidate_is_right() -> None:
    found = METRICS.get("selection").of(
        run_of(
            selected("1", "bird", "bird", "bird", "same"),
            selected("2", "bird", "", "bird"),
            selected("3", "", "bird", ""),
            selected("4", "", "bird", "bird", "second"),
            selected("5", "", "", "bird", "new"),
        )
    )
    assert found.data["candidates"] == [FIRST, SECOND]
    assert found.further == {
        "selection/oracle": Ratio(4, 5),
        "selection/chosen_right": Ratio(2, 3),
        "selection/new_queries": Ratio(1, 5),
    }


def test_selection_is_nothing_without_its_stage_and_a_question_that_failed_before_it_counts() -> None:
    assert (
        METRICS.get("selection").of(run_of(score("1", "bird", stages={FIRST: "bird", SECOND: "bird"})))
        is None
    )
    assert METRICS.get("selection").of(run_of(score("1", "bird"))) is None
    lost = score("2", sql=None, failure=Failure("backbone_error", "", "no answer", True))
    found = METRICS.get("selection").of(run_of(selected("1", "bird", "", "bird"), lost))
    assert list(found.further.values()) == [Ratio(1, 2), Ratio(1, 1), Ratio(0, 1)]


def test_causes_are_counted_for_wrong_answers_only_and_all_kinds_are_named() -> None:
    run = run_of(
        score("1", "bird", sql="SELECT name FROM item", gold_sql="SELECT name FROM item"),
        score("2", sql="SELECT price FROM item", gold_sql="SELECT name FROM item"),
        score("3", sql=None),
        score("4", sql="SELECT name FROM item", gold_sql="SELECT name FROM item", executable=False),
    )
    found, dac = METRICS.get("errors").of(run), METRICS.get("errors_dac").of(run)
    assert tuple(found.data) == ERROR_CLASSES
    assert {name: count for name, count in found.data.items() if count} == {
        "no_answer": 1,
        "wrong_column": 1,
    }
    assert causes(run) == {"2": ("wrong_column",), "3": ("no_answer",)}
    assert found.by_question == {"1": "", "2": "wrong_column", "3": "no_answer", "4": ""}
    assert (dac.data["column"], dac.data["table"]) == (1, 0)
    (table,) = dac.tables
    assert table.caption == "2 of 3 questions are wrong; one may have several causes"
    assert table.rows == (
        ("table, wrong or missing", "0"),
        ("column, wrong or missing", "1"),
        ("skeleton", "0"),
        ("execution, any that did not end", "0"),
    )
    found = unanswered.of(run)
    assert found is not None and found.data == ["3"]


def test_questions_that_nobody_asked_are_not_called_unanswered() -> None:
    absent = score("1", sql=None, executable=False, failure=Failure("missing_database", "", "absent", False))
    found = unanswered.of(run_of(absent, score("2", "bird")))
    assert found is not None and found.data == []


def test_exact_match_is_counted_by_hardness_over_all_scored_questions() -> None:
    easy, nested = (
        "SELECT name FROM item",
        "SELECT name FROM item WHERE price = (SELECT max(price) FROM item)",
    )
    run = run_of(
        score("1", sql=easy, gold_sql=easy),
        score("2", sql=nested, gold_sql=easy),
        score("3", sql=nested, gold_sql=nested),
        score("4", sql=None, gold_sql=easy),
        score("5", sql=easy, gold_sql="this is no query"),
        exact_match=True,
    )
    found = METRICS.get("exact_match").of(run)
    assert found.value == Ratio(2, 5)
    assert found.further["exact_match_by_hardness/easy"] == Ratio(1, 3)
    assert sum(ratio["total"] for ratio in found.data["by_hardness"].values()) == 5
    assert found.by_question == {"1": True, "2": False, "3": True, "4": False, "5": False}
    assert METRICS.get("exact_match").of(run_of(score("1"))) is None, "other layouts have no exact match"


def test_only_questions_on_which_rules_disagree_are_listed() -> None:
    rows = [score("0", "bird spider strict"), score("1", "bird"), score("2", ""), score("3", "spider strict")]
    found = disagreements.of(run_of(*rows, score("4", sql=None, executable=False)))
    assert found.data == [
        {"question_id": "1", "right": ["bird"], "wrong": ["spider", "strict"]},
        {"question_id": "3", "right": ["spider", "strict"], "wrong": ["bird"]},
    ]


def test_soft_f1_counts_what_has_no_score_as_nothing() -> None:
    values = {"1": 1.0, "2": 0.5, "3": None}
    found = METRICS.get("soft_f1").of(
        run_of(score("1"), score("2"), score("3"), measured={"soft_f1": values})
    )
    assert found.value == Ratio(1.5, 3)
    assert found.by_question == values


def test_strict_recall_or_correct_looks_at_the_sql_that_was_made_from_the_link() -> None:
    gold = "SELECT name FROM item WHERE price > 1"
    full = Link(("item",), (ColumnName("item", "name"), ColumnName("item", "price")))
    part = Link(("item",), (ColumnName("item", "name"),))
    rows = [
        score("1", stages={FIRST: "", SECOND: ""}, gold_sql=gold, links={"both": full, "forward": part}),
        score("2", stages={FIRST: "", SECOND: "bird"}, gold_sql=gold, links={"both": part, "forward": part}),
        score("3", stages={FIRST: "bird", SECOND: ""}, gold_sql=gold, links={"both": part, "forward": full}),
    ]
    found = strict_recall_or_correct.of(run_of(*rows))
    assert found.data == {"link": "both", "stage": SECOND, "correct": 2, "total": 3, "value": 2 / 3}
    final = strict_recall_or_correct.of(run_of(*(replace(row, stages={}) for row in rows)))
    assert (final.data["stage"], Ratio.of(final.data)) == ("", Ratio(1, 3))


def test_a_question_without_gold_sql_is_in_no_recall_of_links() -> None:
    part = Link(("item",), (ColumnName("item", "name"),))
    accepted = [score(name, gold_sql="", links={"both": part}) for name in ("1", "2")]
    run = run_of(*accepted, score("3", gold_sql="SELECT price FROM item", links={"both": part}))
    found = strict_recall_or_correct.of(run)
    assert score_links(run.scored, SCHEMAS)[0].strict_recall == Ratio(0, 1)
    assert Ratio.of(found.data) == Ratio(0, 1)


def test_links_are_scored_against_resolved_gold_as_well() -> None:
    schema = Schema(
        "shop", (Table("a", (Column("id"),)), Table("b", (Column("id"), Column("x")))), dialect="sqlite"
    )
    row = score("1", gold_sql="SELECT t.x FROM a JOIN b AS t ON a.id = t.x", links={"both": Link()})
    found = links_resolved.of(ScoredRun("bird", (row,), {"shop": schema}))
    assert (
        score_links([row], {"shop": schema})[0].nsr.total == 3
    )  # a.id, b.id, b.x: names crossed with tables
    assert found.data["both"]["nsr"]["total"] == 2  # a.id, b.x


def test_the_two_counts_of_exact_match_add_up_by_what_matches_in_one_of_them_only() -> None:
    plain, inner = (
        "SELECT name FROM item",
        "SELECT T1.name FROM item AS T1 INNER JOIN item AS T2 ON T1.id = T2.id",
    )
    joined = "SELECT T1.name FROM item AS T1 JOIN item AS T2 ON T1.id = T2.id"
    either = f"{joined} OR T1.price = T2.price"
    nested = "SELECT name FROM item WHERE id IN (SELECT "
    third = " JOIN item AS T3 ON T2.id = T3.id"
    rows = (
        score("1", sql=plain, gold_sql=plain),
        score("2", sql=inner, gold_sql=joined),
        score("3", sql=either, gold_sql=f"{joined} AND T1.price = T2.price"),
        score("4", sql=f"{nested}DISTINCT id FROM item)", gold_sql=f"{nested}id FROM item)"),
        score("5", sql=f"{joined} LEFT{third}", gold_sql=f"{joined}{third}"),
        score("6", sql=f"{plain}; LIMIT 1", gold_sql=plain),
    )
    run = run_of(*rows, exact_match=True)
    here, there = METRICS.get("exact_match").of(run), METRICS.get("exact_match_official").of(run)
    assert here is not None and there is not None
    assert here.by_question == {"1": True, "2": True, "3": False, "4": True, "5": False, "6": False}
    assert there.by_question == {"1": True, "2": False, "3": True, "4": False, "5": True, "6": True}
    assert there.lines == (
        "Exact set match, official parser: 66.67 % (4 of 6); 1 match here only, its parser does not read it: 2; "
        "1 match here only, it compares nested queries as they are written: 4; 3 matches there only, "
        "it ignores what follows a compared column (OR, LEFT) or the query, and takes columns with the same foreign "
        "key for one: 3, 5, 6",
    )
    assert (there.data["unread_matches"], there.data["matches_there_only"]) == (["2"], ["3", "5", "6"])
    assert there.further["exact_match_official/matches_there_only"] == 3


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


def test_no_link_linked_nothing_and_an_empty_one_shows_the_full_schema() -> None:
    found = score_link("forward", [LinkedQuestion("SELECT count(*) FROM item", SCHEMA, None)])
    assert found.strict_recall == Ratio(0, 1)
    assert found.reduction is None
    assert found.precision.value is None
    assert score_link("forward", [LinkedQuestion("SELECT day FROM sale", SCHEMA, Link())]).reduction == 0


def test_the_gold_definition_decides_what_must_be_linked() -> None:
    question = [LinkedQuestion("SELECT item.id FROM item, sale", SCHEMA, named("item.id"))]
    assert score_link("f", question, gold_elements="cross").nsr == Ratio(1, 2)
    assert score_link("f", question, gold_elements="resolved").nsr == Ratio(1, 1)


ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=5)


@pytest.mark.parametrize(("gold", "predicted", "expected"), [
    ([], [], 1.0),
    ([(1,)], [], 0.0),
    ([], [(1,)], 0.0),
    ([(1, 2)], [(2, 1)], 1.0),
    ([(1, 2)], [(1, 3)], 0.5),
    ([(1,), (1,), (2,)], [(1,), (2,)], 1.0),
    ([(1,), (2,)], [(1,)], 2 / 3),
    ([(1,), (2,)], [(2,), (1,)], 0.0),
    ([("a", 1), ("b", 2)], [("a",), ("b",)], 2 / 3),
])  # fmt: skip
def test_cells_of_rows_at_the_same_place_are_counted(gold: Any, predicted: Any, expected: float) -> None:
    assert soft_f1(gold, predicted) == pytest.approx(expected)


@given(ROWS, ROWS)
def test_it_is_a_share_and_a_result_scores_one_against_itself(one: Any, other: Any) -> None:
    assert 0.0 <= soft_f1(one, other) <= 1.0
    assert soft_f1(one, one) == 1.0


async def test_candidates_are_executed(workers: SqlWorkers, shop: Database) -> None:
    candidates = {
        "same": "SELECT name FROM item ORDER BY id",
        "bad": "SELECT nope FROM item",
        "none": None,
    }
    gold = "SELECT name FROM item ORDER BY id"
    scores = {
        name: await measure_soft_f1(workers, shop, gold, sql, timeout_s=5) for name, sql in candidates.items()
    }
    assert scores == {"same": 1.0, "bad": 0.0, "none": 0.0}


async def test_a_gold_that_fails_leaves_the_score_unknown(workers: SqlWorkers, shop: Database) -> None:
    assert await measure_soft_f1(workers, shop, "SELECT nope", "SELECT 1", timeout_s=5) is None

"""DAC's figures, worked out by hand for a few questions."""

from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from tasks.dac_records import Alignment, Entities, Oracle, ParsedSkeleton, Revision
from tasks.database.schema import Column, Schema, Table
from tasks.records import Candidate, ColumnName, Outcome, Question, StageRecord
from tasks.scoring.errors import DacCounts
from tasks.scoring.papers.dac import EntityScore, RevisionCount, dac_statistics
from tasks.scoring.papers.dac_oracle import make_oracle
from tasks.scoring.report import QuestionScore, Ratio, Verdict
from tasks.settings.pipeline import DacCorrectionSettings

SCHEMA = Schema(
    "shop",
    (
        Table("item", (Column("id"), Column("name"), Column("price"))),
        Table("sale", (Column("item_id"), Column("day"))),
    ),
)
GOLD = "SELECT name FROM item WHERE price > 5"
SKELETON = "select _ from _ where _ > _"
NAME, PRICE, DAY = ColumnName("item", "name"), ColumnName("item", "price"), ColumnName("sale", "day")


def record(stage: str, value: Any, error: str = "") -> StageRecord:
    return StageRecord(stage, stage, to_jsonable_python(value), False, error=error)


def linked(*columns: ColumnName, tables: tuple[str, ...] = ("item",)) -> StageRecord:
    return record("entity_linking", Alignment(entities=Entities(tables, columns)))


def parsed(skeleton: str | None) -> StageRecord:
    return record("skeleton_parsing", ParsedSkeleton(skeleton, note="" if skeleton else "unreadable"))


def revised(kind: Any, outcome: Any) -> StageRecord:
    return record("dac_correction", Revision(kind, "SELECT 1", outcome))


def question(
    number: int,
    first: str | None,
    final: str | None,
    *records: StageRecord,
    right: tuple[bool, bool] = (False, False),
    status: str = "ok",
    gold: str = GOLD,
    executable: bool = True,
) -> QuestionScore:
    def verdict(ok: bool, sql: str | None, status: str = "ok") -> Verdict:
        return Verdict({"bird": ok}, status if sql else "no_answer", row_count=1)

    candidates = (
        Candidate("1_initial_sql", first),
        Candidate("2_dac_entities", final),
        Candidate("3_dac_skeleton", final),
    )
    return QuestionScore(
        Question(str(number), "?", "shop"),
        Outcome(str(number), final, candidates, stages=records),
        verdict(right[1], final),
        {"1_initial_sql": verdict(right[0], first, status), "2_dac_entities": verdict(right[1], final)},
        gold,
        executable,
    )


SCORES = (
    # fixed: the price was missing, and with it the skeleton
    question(
        1, "SELECT name FROM item", GOLD, linked(NAME, PRICE), parsed(SKELETON), revised("entities", "accepted"),
        right=(False, True),
    ),
    # right from the start, although the linker missed a column and the parser another skeleton
    question(2, GOLD, GOLD, linked(NAME), parsed("select _ from _"), right=(True, True)),
    # wrong table and column linked, the correction rejected, then unreadable
    question(
        3, "SELECT day FROM sales", "SELECT day FROM sale", linked(DAY, tables=("sale",)), parsed(None),
        revised("entities", "rejected"), revised("entities", "unreadable"), status="error",
    ),
    # failed before the sub-tasks
    question(4, None, None, record("entity_linking", None, "the backbone is down")),
    # not scored
    question(5, GOLD, GOLD, linked(DAY), parsed("select _"), right=(True, True), executable=False),
)  # fmt: skip


def test_the_figures_of_five_questions() -> None:
    found = dac_statistics(SCORES, "bird", {"shop": SCHEMA})
    assert found is not None
    assert found.questions == 4
    # gold: item in each of four questions; linked: item, item, sale
    assert found.tables == EntityScore(Ratio(2, 3), Ratio(2, 4))
    # gold: name and price in each; linked: name price, name, day
    assert found.columns == EntityScore(Ratio(3, 4), Ratio(3, 8))
    assert found.columns.f1 == pytest.approx(2 * 0.75 * 0.375 / 1.125)
    assert found.parsed_skeleton == Ratio(1, 4)
    assert found.right_of_right_subtasks == Ratio(1, 1)
    assert found.before.skeleton == Ratio(1, 4)
    assert found.before.right_of_right_parts == Ratio(1, 1)
    assert found.before.errors == DacCounts(table=1, column=2, skeleton=2, execution=1)
    assert found.after.skeleton == Ratio(2, 4)
    assert found.after.right_of_right_parts == Ratio(2, 2)
    assert found.after.errors == DacCounts(table=1, column=1, skeleton=1, execution=0)
    assert found.revisions == (
        RevisionCount("entities", "accepted", 1),
        RevisionCount("entities", "rejected", 1),
        RevisionCount("entities", "unreadable", 1),
    )


def test_what_was_not_asked_for_is_unknown_and_not_zero() -> None:
    without_linking = dac_statistics([question(1, GOLD, GOLD, parsed(SKELETON))], "bird", {"shop": SCHEMA})
    assert without_linking is not None
    assert (
        without_linking.tables is without_linking.columns is without_linking.right_of_right_subtasks is None
    )
    assert without_linking.parsed_skeleton == Ratio(1, 1)
    without_parsing = dac_statistics([question(1, GOLD, GOLD, linked(NAME, PRICE))], "bird", {"shop": SCHEMA})
    assert without_parsing is not None
    assert without_parsing.parsed_skeleton is without_parsing.right_of_right_subtasks is None
    assert without_parsing.revisions == ()


def test_a_run_without_dac_has_no_such_figures() -> None:
    plain = QuestionScore(
        Question("1", "?", "shop"),
        Outcome("1", GOLD, (Candidate("1_preliminary_sql", GOLD),)),
        Verdict({"bird": True}, "ok"),
        {},
        GOLD,
    )
    assert dac_statistics([plain], "bird", {"shop": SCHEMA}) is None
    assert dac_statistics([], "bird", {"shop": SCHEMA}) is None
    assert dac_statistics(SCORES, "bird", {}) is None


def test_a_gold_that_cannot_be_parsed_makes_nothing_right() -> None:
    scores = [
        question(1, GOLD, GOLD, linked(NAME), parsed(SKELETON), right=(True, True), gold="SELECT FROM WHERE")
    ]
    found = dac_statistics(scores, "bird", {"shop": SCHEMA})
    assert found is not None
    assert found.before.skeleton == found.parsed_skeleton == Ratio(0, 1)
    assert found.tables is not None
    assert found.tables.recall.value is None
    assert found.tables.f1 is None


@pytest.mark.parametrize(
    ("which", "entities", "skeleton"),
    [("entities", True, False), ("skeleton", False, True), ("both", True, True)],
)
def test_an_oracle_gives_the_parts_asked_for(which: Any, entities: bool, skeleton: bool) -> None:
    found = make_oracle(GOLD, SCHEMA, DacCorrectionSettings(oracle=which))
    assert found == Oracle(
        Entities(("item",), (NAME, PRICE)) if entities else None,
        ParsedSkeleton(SKELETON) if skeleton else None,
    )


def test_no_oracle_is_made_unless_asked_for() -> None:
    assert make_oracle(GOLD, SCHEMA, DacCorrectionSettings()) is None
    assert make_oracle(GOLD, SCHEMA, None) is None


def test_the_oracle_skeleton_of_an_unreadable_gold_says_why_there_is_none() -> None:
    found = make_oracle("SELECT FROM WHERE", SCHEMA, DacCorrectionSettings(oracle="skeleton"))
    assert found is not None
    assert found.skeleton is not None
    assert found.skeleton.skeleton is None
    assert found.skeleton.note

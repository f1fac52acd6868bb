"""DAC's and SEA-SQL's figures, worked out by hand for a few questions."""

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest
from pydantic_core import to_jsonable_python

from tasks.core.outcome import Candidate, Outcome, StageRecord
from tasks.core.records import (
    Alignment,
    ColumnName,
    Correction,
    Elimination,
    Entities,
    Oracle,
    ParsedSkeleton,
    Question,
    Revision,
)
from tasks.database.schema import Column, Schema, Table
from tasks.scoring.linking import make_oracle
from tasks.scoring.metric import METRICS, ScoredRun
from tasks.scoring.metrics.dac import dac_figures, sea_figures
from tasks.scoring.scores import QuestionScore, Ratio, Verdict
from tasks.settings.pipeline import DacSettings, RslSqlSettings, oracle_settings
from tasks.settings.stages import DacCorrectionSettings, LinkingSettings
from tests.tasks.scoring.samples import score

SCHEMA = Schema(
    "shop",
    (
        Table("item", (Column("id"), Column("name"), Column("price"))),
        Table("sale", (Column("item_id"), Column("day"))),
    ),
    dialect="sqlite",
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
    assert dac_figures(SCORES, "bird", {"shop": SCHEMA}) == {
        # gold: item in each of four questions; linked: item, item, sale
        "dac/linking_tables/precision": Ratio(2, 3),
        "dac/linking_tables/recall": Ratio(2, 4),
        "dac/linking_tables/f1": pytest.approx(4 / 7),
        # by question: 1, 1, 0, nothing linked
        "dac/linking_tables/macro_precision": Ratio(2, 4),
        "dac/linking_tables/macro_recall": Ratio(2, 4),
        "dac/linking_tables/macro_f1": Ratio(2, 4),
        # gold: name and price in each; linked: name price, name, day
        "dac/linking_columns/precision": Ratio(3, 4),
        "dac/linking_columns/recall": Ratio(3, 8),
        "dac/linking_columns/f1": pytest.approx(2 * 0.75 * 0.375 / 1.125),
        # by question: 1, 1/2, 0, nothing linked
        "dac/linking_columns/macro_precision": Ratio(2, 4),
        "dac/linking_columns/macro_recall": Ratio(1.5, 4),
        "dac/linking_columns/macro_f1": Ratio(1 + 2 / 3, 4),
        "dac/parsed_skeleton": Ratio(1, 4),
        "dac/right_of_right_subtasks": Ratio(1, 1),
        "dac/before/skeleton": Ratio(1, 4),
        "dac/before/right_of_right_parts": Ratio(1, 1),
        "dac/before/errors_table": 1,
        "dac/before/errors_column": 2,
        "dac/before/errors_skeleton": 2,
        "dac/before/errors_execution": 1,
        "dac/after/skeleton": Ratio(2, 4),
        "dac/after/right_of_right_parts": Ratio(2, 2),
        "dac/after/errors_table": 1,
        "dac/after/errors_column": 1,
        "dac/after/errors_skeleton": 1,
        "dac/after/errors_execution": 0,
        "dac/corrections/entities_accepted": 1,
        "dac/corrections/entities_rejected": 1,
        "dac/corrections/entities_unreadable": 1,
    }


def names_of(*records: StageRecord) -> str:
    return " ".join(dac_figures([question(1, GOLD, GOLD, *records)], "bird", {"shop": SCHEMA}))


def test_what_was_not_asked_for_is_absent_and_not_zero() -> None:
    without_linking, without_parsing = names_of(parsed(SKELETON)), names_of(linked(NAME, PRICE))
    assert "dac/parsed_skeleton" in without_linking
    assert "linking" not in without_linking and "right_of_right_subtasks" not in without_linking
    assert "dac/linking_tables/f1" in without_parsing
    assert "parsed" not in without_parsing and "right_of_right_subtasks" not in without_parsing
    assert "corrections" not in without_linking + without_parsing


def test_a_run_of_another_pipeline_has_no_such_figures() -> None:
    plain = QuestionScore(
        Question("1", "?", "shop"),
        Outcome("1", GOLD, (Candidate("1_preliminary_sql", GOLD),)),
        Verdict({"bird": True}, "ok"),
        {},
        GOLD,
    )
    assert dac_figures([plain], "bird", {"shop": SCHEMA}) == {}
    assert dac_figures([], "bird", {"shop": SCHEMA}) == {}
    assert dac_figures(SCORES, "bird", {}) == {}
    assert sea_figures([walked("1", {"1_preliminary_sql": "bird"})], "bird") == {}
    assert sea_figures([], "bird") == {}


def test_a_gold_that_cannot_be_parsed_makes_nothing_right() -> None:
    scores = [
        question(1, GOLD, GOLD, linked(NAME), parsed(SKELETON), right=(True, True), gold="SELECT FROM WHERE")
    ]
    found = dac_figures(scores, "bird", {"shop": SCHEMA})
    assert found["dac/before/skeleton"] == found["dac/parsed_skeleton"] == Ratio(0, 1)
    assert found["dac/linking_tables/recall"] == Ratio(0, 0)
    assert "dac/linking_tables/f1" not in found


@pytest.mark.parametrize(
    ("which", "entities", "skeleton"),
    [("entities", True, False), ("skeleton", False, True), ("both", True, True)],
)
def test_an_oracle_gives_the_parts_asked_for(which: Any, entities: bool, skeleton: bool) -> None:
    found = make_oracle(GOLD, SCHEMA, DacSettings(dac=DacCorrectionSettings(oracle=which)))
    assert found == Oracle(
        Entities(("item",), (NAME, PRICE)) if entities else None,
        ParsedSkeleton(SKELETON) if skeleton else None,
    )


def test_an_oracle_is_made_if_asked_for_and_says_why_an_unreadable_gold_has_none() -> None:
    assert make_oracle(GOLD, SCHEMA, DacSettings()) is None
    assert make_oracle(GOLD, SCHEMA, RslSqlSettings()) is None
    found = make_oracle(
        "SELECT FROM WHERE", SCHEMA, DacSettings(dac=DacCorrectionSettings(oracle="skeleton"))
    )
    assert found.skeleton.skeleton is None
    assert found.skeleton.note


@pytest.mark.parametrize(("gold", "columns"), [
    ("SELECT T.name FROM item AS T WHERE T.price > 3", {"item.name", "item.price"}),
    ("SELECT COUNT(*) FROM item", {f"item.{column.name}" for column in SCHEMA.tables[0].columns}),
])  # fmt: skip
def test_the_gold_link_is_what_the_gold_reads(gold: str, columns: set[str]) -> None:
    settings = RslSqlSettings(linking=LinkingSettings(directions="gold"))
    assert oracle_settings(settings) == ("pipeline.linking.directions=gold",)
    found = make_oracle(gold, SCHEMA, settings)
    assert found is not None and found.link is not None
    assert (found.entities, found.skeleton, found.link.tables) == (None, None, ("item",))
    assert set(map(str, found.link.columns)) == columns


def test_a_macro_figure_says_over_how_many_questions_it_is_the_mean() -> None:
    run = ScoredRun("bird", SCORES, {"shop": SCHEMA})
    found = METRICS.get("figures").of(run)
    assert found is not None and found.lines is not None
    assert re.search(
        r"DAC: tables linked, macro F1 [\d.]+ % \(mean over 4 questions\), columns", found.lines[0]
    )


SQL = "SELECT 1"


def eliminated(outcome: str) -> StageRecord:
    return StageRecord("bias_elimination", "bias_elimination", asdict(Elimination(SQL, outcome)), False)  # type: ignore[arg-type]


def adjusted(before: str, after: str, rounds: int) -> StageRecord:
    value = asdict(Correction(SQL, rounds, before, after))
    return StageRecord("execution_adjustment", "execution_adjustment", value, False)


def walked(name: str, right: Mapping[str, str], *records: StageRecord) -> QuestionScore:
    return score(name, "bird", stages=right, records=records)


STAGES = ("1_preliminary_sql", "2_bias_elimination", "3_execution_adjustment")


def rights(*rules: str) -> Mapping[str, str]:
    return dict(zip(STAGES, rules, strict=False))


def test_both_refinements_are_counted() -> None:
    scores = [
        walked("1", rights("", "bird", "bird"), eliminated("changed"), adjusted("ok", "ok", 0)),
        walked("2", rights("bird", "", "bird"), eliminated("changed"), adjusted("error", "empty", 2)),
        walked("3", rights("bird", "bird", ""), eliminated("kept"), adjusted("timeout", "error", 10)),
        walked("4", rights("", "", "bird"), eliminated("unchanged"), adjusted("no_answer", "ok", 2)),
    ]
    assert sea_figures(scores, "bird") == {
        "sea/bias_elimination/asked": 4,
        "sea/bias_elimination/changed": 2,
        "sea/bias_elimination/kept": 1,
        "sea/bias_elimination/fixed": 1,
        "sea/bias_elimination/broken": 1,
        "sea/execution_adjustment/failing_before": Ratio(3, 4),
        "sea/execution_adjustment/failing_after": Ratio(1, 4),
        "sea/execution_adjustment/adjusted": 3,
        "sea/execution_adjustment/fixed": 2,
        "sea/execution_adjustment/broken": 1,
        "sea/execution_adjustment/rounds_2": 2,
        "sea/execution_adjustment/rounds_10": 1,
    }


def test_a_question_that_failed_on_the_way_stays_in_the_denominator_as_failing() -> None:
    failed = StageRecord("execution_adjustment", "execution_adjustment", None, False, error="down")
    scores = [
        walked("1", rights("bird", "bird", "bird"), adjusted("ok", "ok", 0)),
        walked("2", rights("bird", "bird"), failed),
        walked("3", {}),
        replace(walked("4", {}), executable=False),
    ]
    assert sea_figures(scores, "bird") == {
        "sea/execution_adjustment/failing_before": Ratio(2, 3),
        "sea/execution_adjustment/failing_after": Ratio(2, 3),
        "sea/execution_adjustment/adjusted": 0,
        "sea/execution_adjustment/fixed": 0,
        "sea/execution_adjustment/broken": 0,
    }


def test_right_is_what_the_rule_says() -> None:
    scores = [walked("1", rights("strict", "bird strict"), eliminated("changed"))]
    assert sea_figures(scores, "bird")["sea/bias_elimination/fixed"] == 1
    assert sea_figures(scores, "strict")["sea/bias_elimination/fixed"] == 0

"""The papers' tables: every cell with its numerator and denominator, or the reason why it is unknown."""

from dataclasses import replace
from typing import Any

from tasks.core.records import ColumnName, Link
from tasks.database.database import Database
from tasks.scoring.papers.cells import Cell, PaperTable, figure, share, table, unknown
from tasks.scoring.papers.run import PaperRun
from tasks.scoring.papers.tables import in_paper, paper_tables
from tasks.scoring.report import QuestionScore, Ratio
from tests.tasks.scoring.samples import call, record, score

FORWARD, AUGMENTED = "1_preliminary_sql", "2_augmented_sql"
NAME, PRICE = ColumnName("item", "name"), ColumnName("item", "price")
GOLD = "SELECT name FROM item WHERE price > 5"


def question(
    name: str, first: str, second: str, grade: str, *columns: ColumnName, **more: Any
) -> QuestionScore:
    link = Link(("item",), columns)
    return score(
        name, second, stages={FORWARD: first, AUGMENTED: second}, difficulty=grade, gold_sql=GOLD,
        links={"forward": Link(("item",), (NAME,)), "both": link}, **more,
    )  # fmt: skip


def run(shop: Database, **more: Any) -> PaperRun:
    rows = (
        question(
            "1", "bird", "bird", "simple", NAME, PRICE, records=(record("1_a", call(tokens=30, cost=0.2)),)
        ),
        question("2", "", "bird", "simple", NAME, records=(record("1_a", call(tokens=10, cost=0.1)),)),
        question("3", "bird", "", "challenging", NAME, PRICE),
        question("4", "", "", "challenging", NAME),
    )
    settings = {"pipeline": {"linking": {"directions": "both"}}, "backbone": {"prices": {"input": 1}}}
    return replace(PaperRun("A", "model | pipeline", "bird", rows, settings, {"shop": shop.schema}), **more)


def tables_of(*runs: PaperRun, paper: Any = "rsl-sql") -> dict[str, PaperTable]:
    return {each.title.split(" (")[0].split(":")[0]: each for each in paper_tables(runs, paper)}


def cells(found: PaperTable, row: str) -> dict[str, Cell]:
    return dict(zip(found.columns[1:], dict(found.rows)[row], strict=True))


def test_steps_by_difficulty_have_all_questions_in_their_denominators(shop: Database) -> None:
    found = tables_of(run(shop))["Execution accuracy by step and difficulty"]
    assert [name for name, _ in found.rows] == [FORWARD, AUGMENTED]
    assert {name: cell.text for name, cell in cells(found, FORWARD).items()} == {
        "simple": "50.00 (1/2)", "challenging": "50.00 (1/2)", "total": "50.00 (2/4)",
    }  # fmt: skip
    assert cells(found, AUGMENTED)["simple"].share == Ratio(2, 2)


def test_both_strict_recalls_are_printed_and_the_printed_one_only_for_the_link_in_use(shop: Database) -> None:
    found = tables_of(run(shop))["Schema linking"]
    both, forward = cells(found, "both"), cells(found, "forward")
    assert both["strict recall"].share == Ratio(2, 4)
    # the paper's figure counts question 2 as well: its SQL2 is right
    assert both["SRR as the paper prints it"].share == Ratio(3, 4)
    assert forward["SRR as the paper prints it"].why.endswith("--set pipeline.linking.directions=forward")
    assert forward["NSR"].share == Ratio(4, 8)


def test_in_a_paper_captions_and_notes_name_the_runs(shop: Database) -> None:
    one, other = run(shop, label="m | rsl-sql"), run(shop, name="B", label="m | dac")
    alone = in_paper(tables_of(one)["Schema linking"], [one])
    assert alone[0] == "Schema linking (RSL-SQL): m | rsl-sql"
    both = dict(in_paper(each, [one, other]) for each in paper_tables([one, other], "dac"))
    assert "Right skeletons by hardness (DAC): m | dac (B)" in both
    ablations = both["Ablations: execution accuracy of the final answer by difficulty"]
    assert ablations[0] == "A: m | rsl-sql; B: m | dac"


def test_both_strict_recalls_leave_out_a_question_without_gold_sql(shop: Database) -> None:
    rows = run(shop).rows
    found = tables_of(run(shop, rows=(*rows, replace(rows[3], gold_sql=""))))["Schema linking"]
    both = cells(found, "both")
    assert both["strict recall"].share == Ratio(2, 4)
    assert both["SRR as the paper prints it"].share == Ratio(3, 4)


def test_what_is_missing_is_unknown_with_its_reason_and_never_0(shop: Database) -> None:
    without = run(shop, schemas={}, schemas_missing="the files are gone")
    found = tables_of(without)
    assert {cell.why for cell in cells(found["Schema linking"], "both").values()} == {"the files are gone"}
    times = cells(found["Efficiency by difficulty"], "A: VES")
    assert {cell.text for cell in times.values()} == {"unknown"}
    assert all("benchmark.efficiency=true" in cell.why for cell in times.values())
    dac = tables_of(run(shop), paper="dac")["Entity linking"]
    assert {cell.why for _, row in dac.rows for cell in row} == {
        "no question of the run was corrected by decomposition"
    }


def test_costs_are_per_question_and_unknown_where_a_price_is(shop: Database) -> None:
    priced = run(shop)
    found = tables_of(priced)["Cost of a question beside the scores"]
    assert cells(found, "input tokens")["A"].value == 10
    assert cells(found, "calls")["A"].value == 0.5
    assert cells(found, "USD, all questions")["A"].text == "0.3000"
    free = replace(priced.rows[0].outcome, stages=(record("1_a", call(cached=True, cost=0.0)),))
    cached = replace(priced, rows=(replace(priced.rows[0], outcome=free), *priced.rows[1:]))
    money = cells(tables_of(cached)["Cost of a question beside the scores"], "USD")["A"]
    assert money.value is None and money.why.startswith("1 of 2 replies came from the cache")


def test_ablations_are_compared_with_the_first_run_on_the_same_questions(shop: Database) -> None:
    first = run(shop)
    second = replace(run(shop), name="B", changes=("pipeline.k=0",), rows=(
        question("1", "", "", "simple", NAME), *first.rows[1:],
    ))  # fmt: skip
    part = replace(run(shop), name="C", rows=first.rows[:2])
    found = tables_of(first, second, part)["Ablations"]
    assert cells(found, "B")["change"].text == "−25.00"
    assert "B, changed: pipeline.k=0" in found.notes
    assert cells(found, "C")["change"].why == "the run has other questions than the first one"
    assert cells(found, "C")["challenging"].why == "no question of this kind"


def test_measured_times_are_shown_by_difficulty_with_their_range(shop: Database) -> None:
    spread = {"mean": 90.0, "low": 85.0, "high": 95.0}
    measured = {"ves": spread, "ves_median": 91.0, "by_difficulty": {"simple": {"ves": spread}}}
    found = tables_of(run(shop, efficiency=measured))["Efficiency by difficulty"]
    assert cells(found, "A: VES")["simple"].text == "90.00 (85.00–95.00)"
    assert cells(found, "A: VES of median times")["total"].value == 91
    assert cells(found, "A: R-VES")["total"].why != ""


def test_reasons_are_lettered_once_and_texts_point_to_them() -> None:
    made = table(
        "T",
        ("", "x", "y"),
        [("r", [unknown("gone"), figure(1.5)]), ("s", [unknown("gone"), share(Ratio(0, 0))])],
    )
    assert made.as_table().rows == (("r", "unknown (a)", "1.50"), ("s", "unknown (a)", "unknown (b)"))
    assert made.remarks == ("(a) gone", "(b) no question of this kind")
    assert made.as_object()["rows"][0] == {
        "name": "r",
        "cells": {
            "x": {"text": "unknown", "value": None, "unknown": "gone"},
            "y": {"text": "1.50", "value": 1.5},
        },
    }

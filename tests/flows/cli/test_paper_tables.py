"""The papers' tables: every share with its numerator and denominator, and unknown where something is missing."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flows.evaluate.paper_tables import Cell, PaperRun, PaperTable, paper_tables
from tasks.core.records import ColumnName, Link
from tasks.database.schema import Column, Schema, Table
from tasks.results.build_record import record_of
from tasks.scoring.scores import QuestionScore, Ratio
from tasks.settings.home import Home
from tests.support.demo import demo_golds, write_predictions
from tests.support.in_process import run
from tests.tasks.results.samples import make_run
from tests.tasks.scoring.samples import call, record, score

FORWARD, AUGMENTED = "1_preliminary_sql", "2_augmented_sql"
NAME, PRICE = ColumnName("item", "name"), ColumnName("item", "price")
GOLD = "SELECT name FROM item WHERE price > 5"
SHOP = Schema("shop", (Table("item", (Column("name"), Column("price"))),), dialect="sqlite")


def question(
    name: str, first: str, second: str, grade: str, *columns: ColumnName, **more: Any
) -> QuestionScore:
    link = Link(("item",), columns)
    return score(
        name, second, stages={FORWARD: first, AUGMENTED: second}, difficulty=grade, gold_sql=GOLD,
        links={"forward": Link(("item",), (NAME,)), "both": link}, **more,
    )  # fmt: skip


OTHER_CALL = replace(call(tokens=30, cost=0.2), request="1" * 64)
ROWS = (
    question("1", "bird", "bird", "simple", NAME, PRICE, records=(record("1_a", OTHER_CALL),)),
    question("2", "", "bird", "simple", NAME, records=(record("1_a", call(tokens=10, cost=0.1)),)),
    question("3", "bird", "", "challenging", NAME, PRICE),
    question("4", "", "", "challenging", NAME),
)


def paper_run(name: str = "A", rows: Sequence[QuestionScore] = ROWS, **metrics: Any) -> PaperRun:
    made = make_run(
        settings={"pipeline": {"linking": {"directions": "both"}}}, tags={"changed": "pipeline.k=0"}
    )
    schemas = {row.question.database_id: SHOP for row in rows}
    found = record_of(made, rows, schemas=schemas)
    found = found.model_copy(update={"metrics": {**found.metrics, **metrics}})
    return PaperRun(name, found.model_copy(update={"rows": tuple(rows)}), schemas)


def tables_of(*runs: PaperRun) -> dict[str, PaperTable]:
    return {table.title.split(":")[0]: table for table in paper_tables(runs)}


def cells(table: PaperTable, row: str) -> dict[str, Cell]:
    return dict(zip(table.columns[1:], dict(table.lines)[row], strict=True))


def test_steps_by_difficulty_have_all_questions_in_their_denominators() -> None:
    table = tables_of(paper_run())["Execution accuracy by step and difficulty"]
    assert [name for name, _ in table.lines] == [FORWARD, AUGMENTED]
    assert cells(table, FORWARD) == {
        "simple": Ratio(1, 2), "challenging": Ratio(1, 2), "total": Ratio(2, 4),
    }  # fmt: skip
    assert cells(table, AUGMENTED)["simple"] == Ratio(2, 2)
    assert table.as_table().rows[0][1] == "50.00 % (1/2)"


def test_both_strict_recalls_are_printed_and_the_printed_one_only_for_the_link_in_use() -> None:
    table = tables_of(paper_run())["Schema linking"]
    both, forward = cells(table, "both"), cells(table, "forward")
    assert both["strict recall"] == Ratio(2, 4)
    # the paper's figure counts question 2 as well: its SQL2 is right
    assert both["SRR as the paper prints it"] == Ratio(3, 4)
    assert forward["SRR as the paper prints it"] is None
    assert forward["NSR"] == Ratio(4, 8)


def test_costs_are_per_question_and_unknown_where_a_price_is() -> None:
    table = tables_of(paper_run())["Cost of a question"]
    assert cells(table, "input tokens")["A"] == 10
    assert cells(table, "calls")["A"] == 0.5
    assert cells(table, "USD, all questions")["A"] == pytest.approx(0.3)
    unpriced = replace(
        ROWS[0], outcome=replace(ROWS[0].outcome, stages=(record("1_a", replace(OTHER_CALL, cost_usd=None)),))
    )
    money = cells(tables_of(paper_run(rows=(unpriced, *ROWS[1:])))["Cost of a question"], "USD")
    assert money == {"A": None}


def test_ablations_are_compared_with_the_first_run_on_the_same_questions() -> None:
    second = paper_run("B", (question("1", "", "", "simple", NAME), *ROWS[1:]))
    table = tables_of(paper_run(), second, paper_run("C", ROWS[:2]))["Ablations"]
    assert cells(table, "B")["change"] == "−25.00"
    assert cells(table, "C")["change"] is None and cells(table, "C")["challenging"] is None
    assert table.as_table().rows[2][-1] == "unknown"
    assert "pipeline.k=0" in second.title


def test_measured_times_are_shown_by_difficulty_with_their_range() -> None:
    assert "Efficiency by difficulty" not in tables_of(paper_run())
    spread = {"mean": 90.0, "low": 85.0, "high": 95.0}
    measured = {"ves": spread, "by_difficulty": {"simple": {"ves": spread, "ves_steps": 80.0}}}
    table = tables_of(paper_run(efficiency=measured))["Efficiency by difficulty"]
    assert dict(table.lines)["A: VES"] == [spread, None, spread]
    texts = {row[0]: row[1:] for row in table.as_table().rows}
    assert texts["A: VES"] == ("90.00 (85.00–95.00)", "unknown", "90.00 (85.00–95.00)")
    assert texts["A: ves_steps"] == ("80.00", "unknown", "unknown")


def test_figures_of_the_stages_are_those_of_the_metric() -> None:
    figures = {"sea/bias_elimination/fixed": 2, "dac/linking_tables/macro_f1": {"correct": 1.5, "total": 2}}
    table = tables_of(paper_run(figures=figures), paper_run("B"))[
        "What DAC and SEA-SQL report of their stages"
    ]
    assert cells(table, "sea/bias_elimination/fixed") == {"A": 2, "B": None}
    assert cells(table, "dac/linking_tables/macro_f1")["A"] == Ratio(1.5, 2)
    assert "of the gold SQL" in table.note and "people's labels" in table.note
    assert table.rows[0] == {
        "name": "sea/bias_elimination/fixed", "cells": {"A": 2, "B": None},
    }  # fmt: skip


@pytest.fixture
def scored(tmp_path: Path, demo_home: Home) -> str:
    """A scored file with run times; returns the run's id."""
    four = dict(list(demo_golds(demo_home.path).items())[:4])
    given = ("--predictions", write_predictions(tmp_path / "made.jsonl", four), "--limit", "5")
    ran = run("score", *given, "--trials", "2", "--json", "--set", "benchmark.efficiency=true")
    assert ran.code == 0, ran.err
    assert "Efficiency over 5 questions, 4 timed" in run("show", "latest", "--details").out
    return str(ran.json["run_id"])


@pytest.mark.slow
def test_tables_are_printed_as_text_json_markdown_and_on_a_page(scored: str, tmp_path: Path) -> None:
    shown = run("tables", "latest")
    assert shown.code == 0, shown.err
    assert "80.00 % (4/5)" in shown.out and "run " + scored in shown.out
    titles = {each["title"]: each for each in run("tables", scored, "--json").json["tables"]}
    times = {row["name"]: row["cells"] for row in titles["Efficiency by difficulty"]["rows"]}
    assert times["A: VES"]["total"]["mean"] > 0 and times["A: ves_steps"]["total"] == 80
    markdown = run("tables", scored, scored, "--markdown").out
    assert "Ablations" in markdown and "80.00 % (4/5)" in markdown
    file = tmp_path / "tables.html"
    ran = run("tables", scored, "--html", str(file))
    page = file.read_text(encoding="utf-8")
    assert f"The page is {file}." in ran.out
    assert "<h1>Tables of runs</h1>" in page and "80.00 % (4/5)" in page and scored in page
    run("tables", "nope").assert_refused('There is no run "nope"')

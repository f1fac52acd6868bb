"""A night's page: the verdict, every number with its denominator, and nothing in it that acts."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.documents.html import html
from tasks.documents.markdown import markdown
from tasks.pages.night import night_document
from tasks.pages.night_evaluation import MAX_BROKEN, MAX_FIXED, MAX_UNANSWERED
from tasks.results.night import Night
from tasks.results.night_baseline import details
from tasks.results.run_record import RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.cost import Cost
from tests.tasks.results.comparison_samples import score, stored, two_runs
from tests.tasks.results.night_samples import REFUSED, a_night, unanswered
from tests.tasks.results.page_parts import Page

pytestmark = pytest.mark.slow


def render(night: Night, warehouse: Warehouse) -> str:
    return html(night_document(night, warehouse))


def in_markdown(night: Night, warehouse: Warehouse) -> str:
    return markdown(night_document(night, warehouse, page="page"))


def staged(letter: str, rights: tuple[int, int]) -> RunRecord:
    """A run of two stages, each of which has the first so many of 40 questions right."""
    names = ("1_preliminary_sql", "2_self_correction")
    rows = []
    for number in range(40):
        row = score(number, number < rights[1], letter, names)
        before = score(number, number < rights[0], letter, names)
        rows.append(replace(row, stages={names[0]: before.final, names[1]: row.final}))
    return stored(rows, letter)


def test_a_red_night_says_so_first_and_shows_what_was_broken_with_both_sqls(warehouse: Warehouse) -> None:
    night = a_night(warehouse, two_runs(3, 20, 100))
    written = render(night, warehouse)
    page = Page(written)
    assert '<h1 class="bad">Red</h1>' in written
    assert night.verdict in page.text
    assert written.index(night.verdict) < written.index("Scores")
    entry = night.entries[0]
    (detail,) = details(night.entries, warehouse)
    assert [flip.question_id for flip in detail.broken] == [str(number) for number in range(3, 23)]
    for flip in (*detail.broken, *detail.fixed):
        for text in (flip.question, flip.a.sql, flip.b.sql, flip.gold_sql):
            assert text is not None and text in page.text
    assert '<details class="moved" open>\n<summary>20 questions broken, 3 fixed' in written
    for number in ("42.00 %", "42 of 100", "32.8 to 51.8 %", "−17.00", entry.run_id, entry.baseline):
        assert str(number) in page.text
    assert f"crosscheck compare {entry.baseline} {entry.run_id} --html comparison.html" in page.text


def test_a_green_night_says_so_and_keeps_its_questions_folded(warehouse: Warehouse) -> None:
    night = a_night(warehouse, two_runs(4, 7, 100))
    written = render(night, warehouse)
    assert '<h1 class="good">Green</h1>' in written
    assert "no significant loss" in Page(written).text
    assert "7 questions broken, 4 fixed" in written
    assert '<details class="moved" open>' not in written


def test_long_lists_are_cut_and_say_how_many_more_there_are_and_how_to_see_them(warehouse: Warehouse) -> None:
    before, tonight = two_runs(35, 60, 200)
    night = a_night(warehouse, [before, unanswered(tonight, range(100, 115), "No reply.")])
    page = Page(render(night, warehouse))
    assert len(page.flips) == MAX_BROKEN + MAX_FIXED
    assert f"{60 + 35 - MAX_BROKEN - MAX_FIXED} more are not shown" in page.text
    assert page.text.count("No reply.") == MAX_UNANSWERED
    assert f"and {15 - MAX_UNANSWERED} more: crosscheck query" in page.text


def test_stages_and_causes_stand_beside_those_of_the_baseline(warehouse: Warehouse) -> None:
    night = a_night(warehouse, [staged("a", (20, 30)), staged("b", (25, 22))])
    text = re.sub(r"\s+", " ", Page(render(night, warehouse)).text)
    assert "1 preliminary sql 50.00 % → 62.50 %25 of 40 – → – – → –" in text
    assert "2 self correction 75.00 % → 55.00 %22 of 40 10 → 0 0 → 3" in text
    assert text.index("wrong column 3 → 3") < text.index("no answer 1 → 1")


def test_infrastructure_stands_with_the_command_that_mends_it(warehouse: Warehouse) -> None:
    before, tonight = two_runs(0, 0, 20)
    night = a_night(warehouse, [before, unanswered(tonight, 1, "The endpoint was gone.")], others=[REFUSED])
    page = Page(render(night, warehouse))
    for part in (
        "The key was refused.", "crosscheck evaluate --backbone closed", "no run was made",
        "1 of 20 questions has no answer", f"crosscheck rerun {night.entries[0].run_id}",
        "The endpoint was gone.", "1 backbone error", "1 question without an answer",
    ):  # fmt: skip
        assert part in page.text


def test_cost_and_latency_are_of_paid_calls_and_unknown_is_not_zero(warehouse: Warehouse) -> None:
    night = a_night(warehouse, two_runs(1, 1, 20), others=[REFUSED])
    assert "$5.0000" in render(night, warehouse) and "0.50 s" in html(night_document(night, warehouse))
    unpriced = a_night(warehouse, two_runs(1, 1, 20), others=[REFUSED], cost=Cost(20, 0))
    text = Page(render(unpriced, warehouse)).text
    assert "unknown" in text and "$" not in text


def test_the_headlines_of_metrics_are_shown_where_any_evaluation_measured_them(warehouse: Warehouse) -> None:
    plain = a_night(warehouse, two_runs(4, 7, 100))
    assert "R-VES" not in render(plain, warehouse) + in_markdown(plain, warehouse)
    mean = {"correct": 4340.0, "total": 100, "value": 43.4}
    night = a_night(
        warehouse,
        two_runs(4, 7, 100),
        metrics={
            "efficiency": {"load": 0.1, "headline": {"VES": 64.361, "R-VES": mean, "ves_steps": 55.29}},
            "sql_length": {
                "correct": 90,
                "total": 4,
                "value": 22.5,
                "title": "Length of the SQL",
                "unit": "characters",
                "better": "lower",
            },
            "errors": {"other_rows": 3},
        },
    )
    page, text = (
        render(night, warehouse),
        in_markdown(night, warehouse),
    )
    for name, value in (
        ("VES", "64.36"),
        ("R-VES", "43.40 (mean over 100 questions)"),
        ("ves_steps", "55.29"),
        ("Length of the SQL", "22.50 characters (90 / 4)"),
    ):
        assert f'data-label="{name}">{value}</td>' in page
        assert value in text and name.replace("_", "\\_") in text


def test_the_trend_is_drawn_with_every_score_it_has(warehouse: Warehouse) -> None:
    a, b = two_runs(4, 7, 100)
    written = render(a_night(warehouse, [a, a, b, b]), warehouse)
    assert "The last 4 complete runs" in written
    assert "the last 4 scores: 21 Nov 52.00 %, 21 Nov 52.00 %, 21 Nov 49.00 %, 21 Nov 49.00 %" in written
    assert "complete runs" not in render(a_night(warehouse, [a, b]), warehouse)


def test_the_page_is_made_also_where_the_warehouse_has_the_runs_no_more(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    night = a_night(warehouse, two_runs(3, 20, 100))
    page = Page(render(night, Warehouse(tmp_path / "another.duckdb")))
    assert night.verdict in page.text and "42.00 %" in page.text
    assert "Questions, stages and causes are not shown: There is no run" in page.text


@pytest.mark.parametrize("questions", [1, 2])
def test_every_night_has_a_page(warehouse: Warehouse, questions: int) -> None:
    a, b = two_runs(0, 1, questions)
    nothing = b.model_copy(update={"rows": tuple(replace(row, executable=False) for row in b.rows)})
    for runs in ([b], [a, b], [nothing]):
        text = Page(render(a_night(warehouse, runs), warehouse)).text
        assert "nan" not in text.lower().split()
    empty = replace(a_night(warehouse, [b]), entries=())
    assert "0 evaluations" in Page(render(empty, warehouse)).text

"""The page of a comparison, complete and self-contained, in which nothing acts; every metric of two runs."""

import base64
import hashlib
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.documents.html import html
from tasks.documents.markdown import markdown
from tasks.documents.text import mark_sql, visible
from tasks.pages.comparison import comparison_document
from tasks.results.compare import compare
from tasks.results.comparison import Comparison, MetricRow, as_table, metric_rows
from tasks.results.run_record import RunRecord, json_of
from tasks.scoring.metric import METRICS
from tasks.scoring.scores import Ratio
from tests.tasks.results.comparison_samples import score, stored, two_runs, with_benchmark, with_row
from tests.tasks.results.page_parts import Page, hostile_runs

TEXT = st.text() | st.text(alphabet="<>&'\"bmark/ =;")


def page_of(found: Comparison) -> Page:
    return Page(html(comparison_document(found)))


def test_the_page_has_its_numbers_with_denominators_and_every_flip_with_both_sqls_and_the_gold() -> None:
    found = compare(*two_runs(25, 14, 120))
    page = page_of(found)
    for number in ("45.83 %", "55 of 120 right", "55.00 %", "66 of 120 right"):
        assert number in page.text
    assert [flip["data-change"] for flip in page.flips] == ["fixed"] * 25 + ["broken"] * 14
    for flip in found.flips:
        for text in (flip.question, flip.a.sql, flip.b.sql, flip.gold_sql):
            assert text is not None and text in page.text
    assert found.result.reason in page.text


def test_what_tells_two_runs_apart_is_at_the_top_and_a_missing_sql_is_shown() -> None:
    a, b = two_runs(3, 2, 12)
    b = b.model_copy(update={"tags": {"changed": "pipeline.demonstrations.k=0", "name": "bare", "team": "x"}})
    text = page_of(compare(a, b)).text
    assert "bare · team=x" in text.partition("Flipped questions")[0]
    assert "pipeline.demonstrations.k=0" in text.partition("Flipped questions")[0]
    a, b = two_runs(2, 0, 6)
    row = a.rows[0]
    a = with_row(a, 0, outcome=replace(row.outcome, sql=None), final=replace(row.final, status="no_answer"))
    text = page_of(compare(a, b)).text
    assert "no SQL" in text and "no answer" in text


def test_the_page_loads_nothing() -> None:
    page = page_of(compare(*hostile_runs()))
    loading = {"src", "href", "xlink:href", "action", "srcset", "data", "style"}
    assert all(value.startswith("#") for name, value in page.attributes if name in loading)
    assert set(re.findall(r"url\(([^)]*)\)", page.texts["style"])) == {"#hatch"}
    assert "@import" not in page.texts["style"]
    assert not {"link", "iframe", "object", "embed", "base"} & set(page.tags)


def test_the_policy_allows_the_pages_own_style_and_script_and_no_other() -> None:
    page = page_of(compare(*two_runs(2, 1, 12)))
    policy = next(value for name, value in page.attributes if "default-src" in value and name == "content")
    assert policy.startswith("default-src 'none';")
    for tag in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.texts[tag].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy


def in_a_browser(found: Comparison, tmp_path: Path) -> str:
    """Return what Chromium makes of the page of a comparison."""
    file = tmp_path / "page.html"
    file.write_text(html(comparison_document(found)), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    ran = subprocess.run(
        ["chromium", *options, "--dump-dom", file.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return ran.stdout


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium to open the page with")
def test_a_browser_runs_the_pages_script_under_its_policy_and_nothing_else(tmp_path: Path) -> None:
    page = Page(in_a_browser(compare(*hostile_runs()), tmp_path))
    assert ("class", "live") in page.attributes
    assert page.tags.count("script") == 1


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium to open the page with")
def test_a_page_opens_beside_a_question_that_the_second_run_broke(tmp_path: Path) -> None:
    found = compare(*two_runs(3, 2, 12))
    assert found.flips[0].change == "fixed"
    broken = next(flip.question_id for flip in found.flips if flip.change == "broken")
    read = re.findall(r'<li class="flip read" data-id="([^"]+)"', in_a_browser(found, tmp_path))
    assert read == [broken]


@pytest.mark.parametrize("runs", [
    two_runs(0, 0, 10),
    two_runs(1, 0, 1),
    two_runs(0, 1, 1),
    (stored([score(0, True)]), stored([score(0, True, "b")], "b")),
    (stored([score(0, False)]), stored([score(0, False, "b")], "b")),
    (stored([score(0, False, "a", ())]), stored([score(0, True, "b", ())], "b")),
    [with_benchmark(run, quarantine=["0"]) for run in two_runs(6, 0, 30)],
])  # fmt: skip
def test_every_comparison_has_a_page(runs: tuple[RunRecord, RunRecord]) -> None:
    found = compare(*runs)
    page = page_of(found)
    assert len(page.flips) == len(found.flips)
    assert "nan" not in page.text.lower().split()


@settings(deadline=None)
@given(TEXT, st.none() | TEXT)
def test_marked_sql_says_what_the_sql_says_and_is_no_other_markup(sql: str, other: str | None) -> None:
    page = Page(f"<pre>{mark_sql(sql, other)}</pre>")
    assert page.text == visible(sql.strip())
    assert set(page.tags) <= {"pre", "b", "mark"}


@pytest.mark.parametrize(("sql", "other", "marked"), [
    ("SELECT a FROM t", "SELECT b FROM t", ["a"]),
    ("SELECT a FROM t", "select  a\nfrom t", []),
    ("SELECT a FROM t WHERE x = 1", "SELECT a FROM t", ["WHERE x = 1"]),
    ("SELECT a FROM t", "SELECT a FROM t WHERE x = 1", []),
    ("DROP", "SELECT a, b, c FROM t", []),
    ("SELECT a", None, []),
    (f"SELECT {'c, ' * 20_000} d", f"SELECT {'c, ' * 20_000} e", []),  # too long to be compared word by word
])  # fmt: skip
def test_what_the_other_sql_lacks_is_marked(sql: str, other: str | None, marked: list[str]) -> None:
    found = re.findall("<mark>(.*?)</mark>", str(mark_sql(sql, other)))
    assert [re.sub("</?b>", "", text) for text in found] == marked


SHARE = {"correct": 6, "total": 20, "value": 0.3}
BETTER = {"correct": 9, "total": 20, "value": 0.45}


def summarised(a: dict[str, Any], b: dict[str, Any]) -> tuple[RunRecord, RunRecord]:
    first, second = two_runs(3, 1, 20)
    return first.model_copy(update={"metrics": a}), second.model_copy(update={"metrics": b})


@pytest.mark.parametrize(
    ("a", "b", "lines"),
    [
        (
            {"exact_match": SHARE | {"by_hardness": {"easy": {"correct": 1, "total": 2, "value": 0.5}}}},
            {"exact_match": BETTER | {"by_hardness": {}}},
            [
                "Exact set match | 30.00 % (6 of 20) | 45.00 % (9 of 20) | +15.00 | higher",
                "Exact set match: of hardness easy | 50.00 % (1 of 2) | – | – | higher",
            ],
        ),
        (
            {"errors": {"no_answer": 2, "timeout": 0}, "unanswered": ["1", "2"]},
            {"errors": {"no_answer": 0, "timeout": 0}, "unanswered": []},
            [
                "Causes of wrong answers: no_answer | 2 | 0 | −2 | lower",
                "Questions without SQL | 2 | 0 | −2 | lower",
            ],
        ),
        (
            {"soft_f1": {"sum": 5.0, "total": 20, "value": 0.25}},
            {},
            ["Soft-F1 | 25.00 % (5 of 20) | – | – | higher"],
        ),
        (
            {"efficiency": {"measured": 4, "ves": {"mean": 50.0}, "r_ves": None}},
            {"efficiency": {"measured": 5, "ves": {"mean": 52.5}, "r_ves": None}},
            [
                "Efficiency: measured | 4 | 5 | +1 | higher",
                "Efficiency: ves mean | 50.00 | 52.50 | +2.50 | higher",
            ],
        ),
        ({"selection": None}, {}, []),
        (
            {"selection": {"oracle": SHARE, "chosen_right": {"correct": 0, "total": 0, "value": None}}},
            {"selection": {"oracle": BETTER, "chosen_right": {"correct": 0, "total": 0, "value": None}}},
            ["Selection: either is right (oracle) | 30.00 % (6 of 20) | 45.00 % (9 of 20) | +15.00 | higher"],
        ),
        (
            {"links_resolved": {"forward": {"nsr": SHARE}}},
            {"links_resolved": {"forward": {"nsr": BETTER}}},
            [
                "Linking, gold resolved through aliases: forward NSR | 30.00 % (6 of 20) | 45.00 % (9 of 20) | "
                "+15.00 | higher"
            ],
        ),
    ],
)
def test_a_row_is_a_value_of_a_metric_that_applies_to_one_of_the_runs(
    a: dict[str, Any], b: dict[str, Any], lines: list[str]
) -> None:
    table = as_table(metric_rows(*summarised(a, b)))
    assert [" | ".join(row or ()) for row in table.rows] == lines


def test_every_registered_metric_has_a_row_once_a_summary_has_it() -> None:
    stored = summarised(dict.fromkeys(METRICS.names(), SHARE), {})
    assert sorted(row.name for row in metric_rows(*stored)) == sorted(METRICS.names())


def test_a_metric_of_a_users_file_is_shown_without_its_file() -> None:
    facts = {"title": "Length of the SQL", "unit": "characters", "better": "lower"}
    own = {"correct": 17, "total": 2, "value": 8.5, **facts}
    a, b = summarised({"sql_length": own}, {"sql_length": own | {"correct": 15, "value": 7.5}})
    settings = {"benchmark": {"metrics": ["/gone/mine.py:sql_length"]}}
    (row,) = metric_rows(a.model_copy(update={"settings": settings}), b)
    assert row.cells == ("Length of the SQL", "8.50", "7.50", "−1.00", "lower")
    nothing = MetricRow("m", "", "", "Length", "characters", "lower", Ratio(0, 0), Ratio(30, 4))
    assert nothing.cells == ("Length", "\N{EN DASH}", "7.50", "\N{EN DASH}", "lower"), "never zero"


def test_the_object_has_numerators_denominators_and_the_difference() -> None:
    found = json_of(compare(*summarised({"exact_match": SHARE}, {"exact_match": BETTER})))["metrics"]
    assert found == [
        {
            "name": "exact_match",
            "part": "",
            "words": "",
            "unit": "share",
            "title": "Exact set match",
            "better": "higher",
            "a": SHARE,
            "b": BETTER,
            "difference": pytest.approx(0.15),
        }
    ]


def test_runs_that_scored_different_questions_have_no_metrics_beside_each_other() -> None:
    a, b = summarised({"errors": {"wrong_table": 41}}, {"errors": {"wrong_table": 10}})
    assert compare(a, b).metrics and "-31" in markdown(comparison_document(compare(a, b))).replace("−", "-")
    few = compare(a, b.model_copy(update={"rows": b.rows[:10]}))
    assert few.metrics == ()
    text = markdown(comparison_document(few))
    assert "41" not in text and "Metrics: left out" in text


def test_values_that_are_equal_in_both_runs_may_be_left_out_and_are_counted() -> None:
    rows = metric_rows(
        *summarised({"soft_f1": SHARE, "exact_match": SHARE}, {"soft_f1": SHARE, "exact_match": BETTER})
    )
    assert len(as_table(rows).rows) == 2
    table = as_table(rows, equal=False)
    assert [row[0] for row in table.rows] == ["Exact set match"]
    assert table.caption.endswith("; 1 value equal in both")

"""The page: complete, self-contained, and nothing that a question or a SQL holds can act in it."""

import base64
import hashlib
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.documents.html import html
from tasks.documents.text import mark_sql, visible
from tasks.pages.comparison import comparison_document
from tasks.results.compare import compare
from tasks.results.comparison import Comparison
from tasks.results.run_record import RunRecord
from tests.tasks.results.comparison_samples import score, stored, two_runs, with_benchmark, with_row
from tests.tasks.results.page_parts import Page, hostile_runs

TEXT = st.text() | st.text(alphabet="<>&'\"bmark/ =;")


def test_every_flip_is_on_the_page_with_both_sqls_and_the_gold() -> None:
    found = compare(*two_runs(25, 14, 120))
    page = Page(html(comparison_document(found)))
    assert [flip["data-change"] for flip in page.flips] == ["fixed"] * 25 + ["broken"] * 14
    for flip in found.flips:
        for text in (flip.question, flip.a.sql, flip.b.sql, flip.gold_sql):
            assert text is not None and text in page.text
    assert found.result.reason in page.text


def test_the_page_shows_its_numbers_with_their_denominators() -> None:
    page = Page(html(comparison_document(compare(*two_runs(25, 14, 120)))))
    for number in ("45.83 %", "55 of 120 right", "55.00 %", "66 of 120 right"):
        assert number in page.text


def test_what_tells_two_runs_of_one_pipeline_apart_is_at_the_top() -> None:
    a, b = two_runs(3, 2, 12)
    b = b.model_copy(update={"tags": {"changed": "pipeline.demonstrations.k=0", "name": "bare", "team": "x"}})
    text = Page(html(comparison_document(compare(a, b)))).text
    assert "bare · team=x" in text.partition("Flipped questions")[0]
    assert "pipeline.demonstrations.k=0" in text.partition("Flipped questions")[0]


def test_the_page_loads_nothing() -> None:
    text = html(comparison_document(compare(*hostile_runs())))
    page = Page(text)
    loading = {"src", "href", "xlink:href", "action", "srcset", "data", "style"}
    assert all(value.startswith("#") for name, value in page.attributes if name in loading)
    assert set(re.findall(r"url\(([^)]*)\)", page.texts["style"])) == {"#hatch"}
    assert "@import" not in page.texts["style"]
    assert not {"link", "iframe", "object", "embed", "base"} & set(page.tags)


def test_the_policy_allows_the_pages_own_style_and_script_and_no_other() -> None:
    page = Page(html(comparison_document(compare(*two_runs(2, 1, 12)))))
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
    page = Page(html(comparison_document(found)))
    assert len(page.flips) == len(found.flips)
    assert "nan" not in page.text.lower().split()


def test_a_missing_sql_and_a_failure_are_shown() -> None:
    a, b = two_runs(2, 0, 6)
    row = a.rows[0]
    a = with_row(a, 0, outcome=replace(row.outcome, sql=None), final=replace(row.final, status="no_answer"))
    text = Page(html(comparison_document(compare(a, b)))).text
    assert "no SQL" in text and "no answer" in text


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
])  # fmt: skip
def test_what_the_other_sql_lacks_is_marked(sql: str, other: str | None, marked: list[str]) -> None:
    found = re.findall("<mark>(.*?)</mark>", str(mark_sql(sql, other)))
    assert [re.sub("</?b>", "", text) for text in found] == marked


def test_very_long_sql_is_not_compared_word_by_word() -> None:
    long = "SELECT " + ", ".join(f"c{number}" for number in range(20_000))
    assert "<mark>" not in mark_sql(long, long + " FROM t")

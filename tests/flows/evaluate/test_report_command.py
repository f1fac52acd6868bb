"""`crosscheck show --html`: a run as one page, with what was asked, answered and returned for every question."""

import asyncio
import base64
import json
import re
import shutil
import subprocess
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.scoring.report import Verdict
from tasks.settings.home import Home
from tests.flows.evaluate.test_show_command import RULES, judged, keep
from tests.support.command_line import Ran
from tests.support.offline_run import OfflineRun, offline_run

pytestmark = pytest.mark.slow

PACKED = re.compile(r'<script type="text/plain"([^>]*)>([^<]*)</script>')
HOSTILE = 'How many "ships" <script>alert(1)</script> \x1b[2J \u202e?'


@pytest.fixture
def home(run_here: Callable[..., Ran], tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def asked(home: Home) -> OfflineRun:
    return asyncio.run(offline_run("zero-shot", home=home.path, limit=3))


def unpack(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def kept(home: Home, asked: OfflineRun, text: str | None = None) -> None:
    """Keep a run: the first question is right, the others wrong; the text stands for that of the second one."""
    first, second, third = judged(asked)
    good = Verdict(dict.fromkeys(RULES, True), "ok", row_count=1)
    scores = [replace(first, final=good, stages=dict.fromkeys(first.stages, good)), second, third]
    if text:
        scores[1] = replace(second, question=replace(second.question, text=text))
    keep(home, asked, scores)


def test_the_page_has_every_question_with_its_prompt_reply_and_results(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran]
) -> None:
    kept(home, asked)
    ran = run_here("show", "latest", "--html", "--json")
    assert ran.code == 0, ran.err
    page = Path(ran.json["page"]).read_text(encoding="utf-8")
    assert ran.json["bytes"] == len(page.encode())
    assert "33.33 %" in page and "1 of 3" in page
    packed = PACKED.findall(page)
    *questions, sections = [unpack(text) for _, text in packed]
    assert [each["question_id"] for each in questions] == list(asked.heard)
    for each in questions:
        (heard,) = asked.heard[each["question_id"]]
        (call,) = [call for stage in each["stages"] for call in stage["calls"]]
        shown = [
            "".join(sections[part] if isinstance(part, int) else part for part in message["content"])
            for message in call["messages"]
        ]
        assert "\n\n".join(shown) == heard.prompt
        assert call["reply"] == heard.reply
        assert each["gold_result"]["status"] == "ok"
        assert each["predicted_result"] is not None
        results = (each["predicted_result"], each["gold_result"])
        differ = not each["correct"] and results[0]["rows"] != results[1]["rows"]
        comparable = len({len(result["columns"]) for result in results}) == 1
        assert bool(sum(result["only_here"] for result in results)) == (differ and comparable)
    assert any(isinstance(part, int) for part in call["messages"][-1]["content"]), (
        "what prompts share is there once"
    )


def test_the_page_says_what_changed_since_the_run_before_and_links_to_the_leaderboard(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran]
) -> None:
    kept(home, asked)
    first = Path(run_here("show", "latest", "--html", "--json").json["page"])
    assert "There is no comparison with an earlier run of the same questions" in first.read_text(
        encoding="utf-8"
    )
    keep(home, asked, judged(asked))
    second = Path(run_here("show", "latest", "--html", "--json").json["page"])
    page = second.read_text(encoding="utf-8")
    assert (
        "1 question broken, 0 fixed" in page and "−33.33 points" in page and "(offline | zero-shot)" in page
    )
    assert f"crosscheck compare {first.stem} {second.stem}" in page
    assert '<a href="leaderboard.html">' in page
    assert f'<a href="{second.name}">' in (home.reports / "leaderboard.html").read_text(encoding="utf-8")


def test_the_page_compares_with_the_same_run_before_as_the_terminal_does(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran]
) -> None:
    before = keep(home, asked, judged(asked, right=True), pipeline="few-shot")
    keep(home, asked, judged(asked))
    page = Path(run_here("show", "latest", "--html", "--json").json["page"]).read_text(encoding="utf-8")
    assert f"previous run, of another system: {before} (offline | few-shot)" in run_here("show", "latest").out
    assert f"previous run, of another system: {before} (offline | few-shot)" in page
    assert f"crosscheck compare {before}" not in page + run_here("show", "latest").out


def test_a_run_that_must_not_be_ranked_is_not_better_than_the_run_before(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran]
) -> None:
    kept(home, asked)
    keep(home, asked, judged(asked, right=True), benchmark={"transpile_gold": True})
    page = Path(run_here("show", "latest", "--html", "--json").json["page"]).read_text(encoding="utf-8")
    assert (
        "<strong>Not ranked: B was scored against gold SQL that sqlglot has translated, so no run wins."
        in page
    )


def test_the_page_of_a_run_by_the_rule_spider_says_that_distinct_is_removed(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran]
) -> None:
    (score, *_) = judged(asked, right=True)
    counted = "SELECT count(DISTINCT column1) FROM (VALUES (1), (1))"
    score = replace(score, outcome=replace(score.outcome, sql=counted), gold_sql="SELECT 2")
    keep(home, asked, [score], benchmark={"rule": "spider"})
    page = Path(run_here("show", "latest", "--html", "--json").json["page"]).read_text(encoding="utf-8")
    (question,) = [unpack(text) for _, text in PACKED.findall(page)][:1]
    assert "the results differ, and the answer is right" in question["results_remark"]
    assert "The rule spider compares both queries without DISTINCT." in page


def test_details_may_be_of_the_wrong_answers(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran], tmp_path: Path
) -> None:
    kept(home, asked)
    file = tmp_path / "wrong.html"
    assert run_here("show", "latest", "--wrong", "--html", str(file)).code == 0
    page = file.read_text(encoding="utf-8")
    assert len(PACKED.findall(page)) == 3
    assert page.count('<li class="flip"') == 3
    missing = run_here("show", "latest", "--html", str(tmp_path / "no" / "page.html"))
    assert missing.code == 2
    assert "Name a file in a folder that exists" in missing.err


def test_a_page_of_many_questions_has_the_wrong_ones_and_says_how_many_it_leaves_out(
    home: Home,
    asked: OfflineRun,
    run_here: Callable[..., Ran],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept(home, asked)
    monkeypatch.setattr("tasks.pages.run_page.MAX_QUESTIONS", 2)
    file = tmp_path / "page.html"
    assert run_here("show", "latest", "--html", str(file)).code == 0
    page = file.read_text(encoding="utf-8")
    assert re.findall('<li class="flip"[^>]*data-status="([a-z]+)"', page) == ["wrong", "wrong"]
    assert "This page has 2 of 3 questions, the wrong ones first." in page
    assert "33.33 %" in page and "1 of 3" in page


def test_a_run_that_mlflow_does_not_have_is_said_and_the_page_is_written(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran]
) -> None:
    kept(home, asked)
    ran = run_here("show", "latest", "--html")
    assert ran.code == 0
    assert "It is not in MLflow: MLflow does not have the run." in ran.out


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium to open the page with")
def test_a_browser_unpacks_the_details_of_a_question(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran], tmp_path: Path
) -> None:
    kept(home, asked, HOSTILE)
    page = Path(run_here("show", "latest", "--html", "--json").json["page"])
    opened = tmp_path / "opened.html"
    text = page.read_text(encoding="utf-8")
    opened.write_text(text.replace('<details class="more">', '<details class="more" open>'), encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command = ["chromium", *options, "--virtual-time-budget=5000", "--dump-dom", opened.as_uri()]
    # what is unpacked beside the browser's virtual clock may take longer than it does where the machine is busy
    for _ in range(5):
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        shown = ran.stdout.partition("<footer>")[0]
        if shown.count("prompt and reply of ") == 3:
            break
    assert shown.count("prompt and reply of ") == 3
    assert "result of the gold" in shown
    assert "<script>alert" not in ran.stdout


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium to open the page with")
def test_a_browser_shows_a_table_of_the_questions_beside_the_first_wrong_one(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran], tmp_path: Path
) -> None:
    kept(home, asked, HOSTILE)
    page = Path(run_here("show", "latest", "--html", "--json").json["page"])
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]

    def opened(address: str) -> str:
        command = ["chromium", *options, "--virtual-time-budget=5000", "--dump-dom", address]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout

    shown = opened(page.as_uri())
    table = shown.partition('aria-label="Table of the questions"')[2].partition("</table>")[0]
    assert re.findall(r'href="#q-(\w+)"', table) == list(asked.heard)
    assert table.count("aria-current") == 1 and "<script>alert" not in shown
    read = re.findall(r'<li class="flip read" data-id="(\w+)"', shown)
    first, second, third = asked.heard
    assert read == [second]
    assert re.findall(r'<li class="flip read" data-id="(\w+)"', opened(f"{page.as_uri()}#q-{third}")) == [
        third
    ]
    assert first not in read
    filtered = opened(f"{page.as_uri()}#questions-wrong")
    assert 'href="#questions-wrong"' in filtered
    assert re.findall(r'<li class="flip[^"]*" data-id="(\w+)"[^>]* hidden', filtered) == [first]

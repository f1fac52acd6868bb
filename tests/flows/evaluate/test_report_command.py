"""`crosscheck show --html`: a run as one page, with what was asked, answered and returned for every question."""

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

from tasks.settings.home import Home
from tests.support.command_line import Ran
from tests.support.kept_runs import RIGHT, KeptRuns

pytestmark = pytest.mark.slow

PACKED = re.compile(r'<script type="text/plain"([^>]*)>([^<]*)</script>')
NEEDS_CHROMIUM = pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium to open the page with")
HOSTILE = 'How many "ships" <script>alert(1)</script> \x1b[2J \u202e?'


@pytest.fixture
def runs(run_here: Callable[..., Ran], tmp_path: Path) -> KeptRuns:
    return KeptRuns(Home(tmp_path / "home"), run_here)


def unpack(text: str) -> Any:
    return json.loads(zlib.decompress(base64.b64decode(text)))


def kept(runs: KeptRuns, text: str | None = None) -> None:
    """Keep a run: the first question is right, the others wrong; the text stands for that of the second one."""
    first, second, third = runs.judged()
    if text:
        second = replace(second, question=replace(second.question, text=text))
    runs.keep([replace(first, final=RIGHT, stages=dict.fromkeys(first.stages, RIGHT)), second, third])


def test_the_page_has_every_question_with_its_prompt_reply_and_results_and_says_that_mlflow_lacks_the_run(
    runs: KeptRuns,
) -> None:
    kept(runs)
    page = runs.page().read_text(encoding="utf-8")
    assert runs.run("show", "latest", "--html", "--json").json["bytes"] == len(page.encode())
    assert "33.33 %" in page and "1 of 3" in page
    packed = PACKED.findall(page)
    *questions, sections = [unpack(text) for _, text in packed]
    assert [each["question_id"] for each in questions] == list(runs.asked.heard)
    for each in questions:
        (heard,) = runs.asked.heard[each["question_id"]]
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
    ran = runs.run("show", "latest", "--html")
    assert ran.code == 0
    assert "It is not in MLflow: MLflow does not have the run." in ran.out


def test_the_page_says_what_changed_since_the_run_before_and_links_to_the_leaderboard(runs: KeptRuns) -> None:
    kept(runs)
    first = runs.page()
    alone = "There is no comparison with an earlier run of the same questions"
    assert alone in first.read_text(encoding="utf-8")
    runs.keep(runs.judged())
    second = runs.page()
    page = second.read_text(encoding="utf-8")
    for words in ("1 question broken, 0 fixed", "−33.33 points", "(offline | zero-shot)"):
        assert words in page
    assert f"crosscheck compare {first.stem} {second.stem}" in page
    assert '<a href="leaderboard.html">' in page
    assert f'<a href="{second.name}">' in (runs.home.reports / "leaderboard.html").read_text(encoding="utf-8")


def test_the_page_compares_with_the_same_run_before_as_the_terminal_does(runs: KeptRuns) -> None:
    before = runs.keep(runs.judged(right=True), pipeline="few-shot")
    runs.keep(runs.judged())
    page = runs.page().read_text(encoding="utf-8")
    assert f"previous run, of another system: {before} (offline | few-shot)" in runs.show()
    assert f"previous run, of another system: {before} (offline | few-shot)" in page
    assert f"crosscheck compare {before}" not in page + runs.show()


def test_a_run_that_must_not_be_ranked_is_not_better_than_the_run_before(runs: KeptRuns) -> None:
    kept(runs)
    runs.keep(runs.judged(right=True), benchmark={"transpile_gold": True})
    page = runs.page().read_text(encoding="utf-8")
    remark = "Not ranked: B was scored against gold SQL that sqlglot has translated, so no run wins."
    assert f"<strong>{remark}" in page


def test_the_page_of_a_run_by_the_rule_spider_says_that_distinct_is_removed(runs: KeptRuns) -> None:
    (score, *_) = runs.judged(right=True)
    counted = "SELECT count(DISTINCT column1) FROM (VALUES (1), (1))"
    score = replace(score, outcome=replace(score.outcome, sql=counted), gold_sql="SELECT 2")
    runs.keep([score], benchmark={"rule": "spider"})
    page = runs.page().read_text(encoding="utf-8")
    (question,) = [unpack(text) for _, text in PACKED.findall(page)][:1]
    assert "the results differ, and the answer is right" in question["results_remark"]
    assert "The rule spider compares both queries without DISTINCT." in page


def test_details_may_be_of_the_wrong_answers(runs: KeptRuns, tmp_path: Path) -> None:
    kept(runs)
    file = tmp_path / "wrong.html"
    assert runs.run("show", "latest", "--wrong", "--html", str(file)).code == 0
    page = file.read_text(encoding="utf-8")
    assert len(PACKED.findall(page)) == 3
    assert page.count('<li class="flip"') == 3
    missing = runs.run("show", "latest", "--html", str(tmp_path / "no" / "page.html"))
    assert missing.code == 2
    assert "Make it, or name another file" in missing.err


def test_a_page_of_many_questions_has_the_wrong_ones_and_says_how_many_it_leaves_out(
    runs: KeptRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept(runs)
    monkeypatch.setattr("tasks.pages.run_page.MAX_QUESTIONS", 2)
    file = tmp_path / "page.html"
    assert runs.run("show", "latest", "--html", str(file)).code == 0
    page = file.read_text(encoding="utf-8")
    assert re.findall('<li class="flip"[^>]*data-status="([a-z]+)"', page) == ["wrong", "wrong"]
    assert "This page has 2 of 3 questions, the wrong ones first." in page
    assert "33.33 %" in page and "1 of 3" in page


@pytest.fixture
def browse(tmp_path: Path) -> Callable[[str], str]:
    """Opens an address in a browser, and returns what it made of the page."""
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]

    def opened(address: str) -> str:
        command = ["chromium", *options, "--virtual-time-budget=5000", "--dump-dom", address]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout

    return opened


@NEEDS_CHROMIUM
def test_a_browser_unpacks_the_details_of_a_question(
    runs: KeptRuns, browse: Callable[[str], str], tmp_path: Path
) -> None:
    kept(runs, HOSTILE)
    opened = tmp_path / "opened.html"
    text = runs.page().read_text(encoding="utf-8")
    opened.write_text(text.replace('<details class="more">', '<details class="more" open>'), encoding="utf-8")
    # what is unpacked beside the browser's virtual clock may take longer than it does where the machine is busy
    for _ in range(5):
        dumped = browse(opened.as_uri())
        shown = dumped.partition("<footer>")[0]
        if shown.count("prompt and reply of ") == 3:
            break
    assert shown.count("prompt and reply of ") == 3
    assert "result of the gold" in shown
    assert "<script>alert" not in dumped


@NEEDS_CHROMIUM
def test_a_browser_shows_a_table_of_the_questions_beside_the_first_wrong_one(
    runs: KeptRuns, browse: Callable[[str], str]
) -> None:
    kept(runs, HOSTILE)
    page = runs.page().as_uri()
    shown = browse(page)
    table = shown.partition('aria-label="Table of the questions"')[2].partition("</table>")[0]
    assert re.findall(r'href="#q-(\w+)"', table) == list(runs.asked.heard)
    assert table.count("aria-current") == 1 and "<script>alert" not in shown
    first, second, third = runs.asked.heard
    read = r'<li class="flip read" data-id="(\w+)"'
    assert re.findall(read, shown) == [second]
    assert re.findall(read, browse(f"{page}#q-{third}")) == [third]
    filtered = browse(f"{page}#questions-wrong")
    assert 'href="#questions-wrong"' in filtered
    assert re.findall(r'<li class="flip[^"]*" data-id="(\w+)"[^>]* hidden', filtered) == [first]


@pytest.fixture
def conversation(run_here: Callable[..., Ran], tmp_path: Path) -> KeptRuns:
    """A run with one conversation of the scripted agent."""
    runs = KeptRuns(Home(tmp_path / "home"), run_here, "agent", limit=1)
    runs.keep(runs.judged())
    return runs


def test_the_turns_of_an_agent_are_shown_and_the_prompt_once(conversation: KeptRuns) -> None:
    (score,) = conversation.judged()
    turns = [each for each in score.outcome.stages if each.stage == "turn"]
    assert len(turns) > 2
    out = conversation.show(score.question.id)
    shown = out[out.index("Conversation") :]
    assert re.findall(r"^turn(?: \d+)?(?=  )", shown, re.MULTILINE) == [each.label for each in turns]
    for words in ("  tables {}", "  submit\n", "wrong, the same SQL as before, submitted"):
        assert words in shown
    assert "SQL by stage" not in out and "Model calls" not in out and "### Question" not in out
    whole = conversation.show(score.question.id, "--prompts")
    assert whole.count("### Question") == 1 and whole.count(score.question.text) == 2


def test_the_page_has_the_prompt_of_the_first_turn_only(conversation: KeptRuns) -> None:
    packed = PACKED.findall(conversation.page().read_text(encoding="utf-8"))
    (question,) = [found for _, text in packed if isinstance(found := unpack(text), dict)]
    turns = [stage for stage in question["stages"] if stage["stage"].startswith("turn")]
    assert [len(stage["calls"]) for stage in turns] == [1, *[0] * (len(turns) - 1)]
    assert turns[0]["calls"][0]["messages"][0]["role"] == "system"
    assert all("calls" in stage["value"] for stage in turns)

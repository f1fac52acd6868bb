"""`crosscheck show` and the page of a run whose pipeline is an agent: its turns as a conversation."""

import asyncio
import base64
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tasks.settings.home import Home
from tests.flows.evaluate.test_show_command import judged, keep
from tests.support.command_line import Ran
from tests.support.offline_run import OfflineRun, offline_run

pytestmark = pytest.mark.slow


@pytest.fixture
def home(run_here: Callable[..., Ran], tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def asked(home: Home) -> OfflineRun:
    return asyncio.run(offline_run("agent", home=home.path, limit=1))


def test_the_turns_of_the_pipeline_are_shown_and_the_prompt_once(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran]
) -> None:
    (score,) = judged(asked)
    run_id = keep(home, asked, [score])
    turns = [each for each in score.outcome.stages if each.stage == "turn"]
    assert len(turns) > 2
    out = run_here("show", run_id, score.question.id).out
    shown = out[out.index("Conversation") :]
    assert re.findall(r"^turn(?: \d+)?(?=  )", shown, re.MULTILINE) == [each.label for each in turns]
    assert (
        "  tables {}" in shown
        and "  submit\n" in shown
        and "wrong, the same SQL as before, submitted" in shown
    )
    assert "SQL by stage" not in out and "Model calls" not in out and "### Question" not in out
    whole = run_here("show", run_id, score.question.id, "--prompts").out
    assert whole.count("### Question") == 1 and whole.count(score.question.text) == 2


def test_the_page_has_the_prompt_of_the_first_turn_only(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran]
) -> None:
    (score,) = judged(asked)
    keep(home, asked, [score])
    page = Path(run_here("show", "latest", "--html", "--json").json["page"]).read_text(encoding="utf-8")
    packed = re.findall(r'<script type="text/plain"[^>]*>([^<]*)</script>', page)
    (question,) = [
        found
        for each in packed
        if isinstance(found := json.loads(zlib.decompress(base64.b64decode(each))), dict)
    ]
    turns = [stage for stage in question["stages"] if stage["stage"].startswith("turn")]
    assert [len(stage["calls"]) for stage in turns] == [1, *[0] * (len(turns) - 1)]
    assert turns[0]["calls"][0]["messages"][0]["role"] == "system"
    assert all("calls" in stage["value"] for stage in turns)

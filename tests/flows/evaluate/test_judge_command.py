"""`crosscheck judge`: opinions beside the verdicts, at a real local endpoint; no score and no stage depends on them."""

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.demo import demo_golds, write_backbone, write_predictions
from tests.support.fake_openai import Body, FakeOpenAI, unauthorized
from tests.support.in_process import run
from tests.test_layering import all_imports

WRONG = ("1", "2", "3")
FORGIVEN = "2"
"""The wrong answer that the model calls right."""


class Judged(NamedTuple):
    """A run, and the file of a model that judges."""

    run_id: str
    backbone: str


@pytest.fixture
def judged(
    built_demo: Path, fake_openai: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Judged:
    """A run of six questions, three of them wrong, and a model that judges."""
    home = Path(shutil.copytree(built_demo, tmp_path / "home"))
    monkeypatch.setenv("CROSSCHECK_HOME", str(home))
    six = dict(list(demo_golds(home).items())[:6])
    sqls = six | {name: f"SELECT 'mine {name}'" for name in WRONG}
    file = write_predictions(tmp_path / "mine.jsonl", sqls)
    ran = run("score", "--predictions", file, "--limit", "6", "--json")
    assert (ran.code, ran.json["correct"]) == (0, 3), ran.err

    def answer(body: Body) -> str:
        text = body["messages"][-1]["content"]
        right = f"mine {FORGIVEN}" in text or "'mine " not in text
        return json.dumps({"right": right, "reason": "It \u001b[31msays so."})

    fake_openai.answer = answer
    prices = {"input": 1.0, "output": 2.0, "as_of": "2026-11-21"}
    backbone = write_backbone(tmp_path / "judge.yaml", fake_openai, model="judge-1", retries=0, prices=prices)
    return Judged(ran.json["run_id"], backbone)


@pytest.mark.slow
def test_opinions_are_a_column_of_their_own_with_agreement_and_cost(
    judged: Judged, fake_openai: FakeOpenAI
) -> None:
    name = judged.run_id
    before = run("show", name, "--json").json
    ran = run("judge", name, "--backbone", judged.backbone, "--json")
    assert ran.code == 0, ran.err
    found = ran.json
    assert (found["answers"], found["judged"], found["cost"]["calls"]) == (3, 3, 3)
    assert found["agrees_with_ex"] == {"correct": 2, "total": 3, "value": 2 / 3}
    assert found["wrong_by_ex_right_by_model"] == [FORGIVEN]
    assert found["cost"]["cost_usd"] > 0
    sql = f"SELECT question_id, opinion, opinion_by FROM questions WHERE run_id = '{name}' ORDER BY position"
    rows = run("query", sql, "--json").json["rows"]
    assert [row["opinion"] for row in rows if row["question_id"] in WRONG] == [False, True, False]
    assert {row["opinion"] for row in rows if row["question_id"] not in WRONG} == {None}
    after = run("show", name, "--json").json
    assert after.pop("judge")["judged"] == 3 and before.pop("judge") is None
    assert after == before, "no score depends on an opinion"
    shown = run("show", name, FORGIVEN).out
    assert "opinion of judge: right" in shown and "\x1b" not in shown

    again = run("judge", name, "--backbone", judged.backbone, "--all", "--json").json
    assert (again["answers"], again["cost"]["calls"], again["cost"]["cached_calls"]) == (6, 3, 3)
    assert len(fake_openai.requests) == 6, "the first three were paid for"
    assert again["right_by_ex_wrong_by_model"] == []
    assert again["agrees_with_ex"] == {"correct": 5, "total": 6, "value": 5 / 6}


def test_a_spent_budget_refuses_no_opinion_that_is_in_the_cache(judged: Judged) -> None:
    command = ("judge", judged.run_id, "--backbone", judged.backbone, "--json")
    assert run(*command, "--questions", "3").json["judged"] == 1
    ran = run(*command, "--budget", "1e-9", "--set", "backbone.concurrency=1")
    assert (ran.code, ran.json["judged"], list(ran.json["without_opinion"])) == (3, 2, ["2"])


@pytest.mark.slow
def test_what_cannot_be_judged_is_said_and_the_rest_is_kept(judged: Judged, fake_openai: FakeOpenAI) -> None:
    name, plain = judged.run_id, fake_openai.answer
    assert plain is not None
    fake_openai.answer = lambda body: "?" if "mine 3" in body["messages"][-1]["content"] else plain(body)
    ran = run("judge", name, "--backbone", judged.backbone, "--json")
    assert ran.code == 3
    assert (list(ran.json["without_opinion"]), ran.json["judged"]) == (["3"], 2)
    fake_openai.answer = plain
    other = run("judge", name, "--backbone", judged.backbone, "--set", "backbone.model=judge-2", "--json")
    stored = run("show", name, "--json").json["judge"]
    assert (other.code, stored["judged"], stored["without_opinion"]) == (0, 3, {})
    for arguments, said in (
        ((name, "--backbone", "nobody"), 'There is no backbone "nobody"'),
        ((name, "--backbone", judged.backbone, "--questions", "4"), "no wrong answer"),
        (("nothing", "--backbone", judged.backbone), "There is no run"),
        ((name, "--backbone", judged.backbone, "--set", "pipeline.name=x"), "only backbone.*"),
    ):
        run("judge", *arguments).assert_refused(said)


def test_a_refused_key_is_asked_once_and_a_judge_whose_first_replies_cannot_be_read_is_not_paid_for_the_rest(
    judged: Judged, fake_openai: FakeOpenAI
) -> None:
    command = ("judge", judged.run_id, "--backbone", judged.backbone)
    fake_openai.always(unauthorized())
    run(*command).assert_refused("is not accepted")
    assert len(fake_openai.requests) == 1
    fake_openai.always(None)
    fake_openai.answer = lambda body: "I would say so."
    settings = ("--set", "backbone.unreadable_limit=2", "--set", "backbone.concurrency=1")
    refused = run(*command, *settings)
    refused.assert_refused(
        "opinion: none of the first 2 replies could be read", "So far: 2 calls paid, 0 from the"
    )
    assert "Judged 0 of " in refused.err and "Judged 1 of " not in refused.err
    assert len(fake_openai.requests) == 1 + 2, "of three answers"


@pytest.mark.slow
def test_every_answer_without_an_opinion_is_counted_and_an_unreadable_reply_is_not_bought_twice(
    judged: Judged, fake_openai: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.evaluate.judging.MAX_LISTED", 1)
    fake_openai.answer = lambda body: "?"
    for _ in range(2):
        ran = run("judge", judged.run_id, "--backbone", judged.backbone)
        assert ran.code == 3, ran.err
        said = " ".join(ran.out.split())
        assert "no opinion on 3 of 3 answers; --json lists all" in said
        assert "A reply that cannot be read is kept" in said
        assert len(fake_openai.requests) == 6


def test_nothing_but_the_command_can_ask_for_an_opinion() -> None:
    asking = "flows.evaluate.judging"
    assert {each.module for each in all_imports() if each.imported.startswith(asking)} == {
        "flows.cli.commands.judge"
    }

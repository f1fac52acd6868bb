"""`crosscheck show`: a run and its questions, from what is stored, on 80 columns and as JSON."""

import asyncio
import io
import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from flows.cli.display.question import print_lists
from flows.evaluate.run_view import view_run
from flows.runtime.folders import Folders
from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.protocol import Message, Reply, Request, request_key
from tasks.core.outcome import Call, Failure, Outcome, StageRecord, Usage
from tasks.results.build_record import describe, record_of
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.report import QuestionScore, Verdict
from tasks.settings.home import Home
from tests.support.command_line import Ran
from tests.support.offline_run import OfflineRun, offline_run
from tests.support.stored_replies import store_reply
from tests.tasks.results.samples import report_of

RULES = ("bird", "spider", "strict")
KEY = "ab" * 32


@pytest.fixture
def home(run_here: Callable[..., Ran], tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def keep(
    home: Home,
    asked: OfflineRun,
    scores: Sequence[QuestionScore],
    backbone: dict[str, object] | None = None,
    benchmark: dict[str, object] | None = None,
    pipeline: str | None = None,
) -> str:
    """Write a run as an evaluation does; return its id."""
    settings = {
        kind: getattr(asked.preparation.settings, kind).model_dump(mode="json")
        for kind in ("benchmark", "backbone", "pipeline")
    }
    settings["backbone"] |= backbone or {}
    settings["benchmark"] |= benchmark or {}
    run = describe(settings, asked.preparation.benchmark.question_files, engine="", questions_in_benchmark=60)
    run = run.model_copy(update={"pipeline": pipeline or run.pipeline})
    report = report_of(scores)
    warehouse = Warehouse(home.warehouse)
    warehouse.finish(record_of(run, report, seconds=2.0))
    return run.run_id


def judged(asked: OfflineRun, *, right: bool = False) -> list[QuestionScore]:
    """The outcomes of a run, all with the same verdict."""
    verdict = Verdict(dict.fromkeys(RULES, right), "ok", row_count=1)
    return [
        QuestionScore(
            question,
            asked.outcomes[question.id],
            verdict,
            {each.stage: verdict for each in asked.outcomes[question.id].candidates},
            asked.preparation.benchmark.gold[question.id],
        )
        for question in asked.preparation.answerable
    ]


@pytest.fixture
def asked(home: Home) -> OfflineRun:
    return asyncio.run(offline_run("zero-shot", home=home.path, limit=3))


def test_a_run_shows_its_scores_its_settings_and_what_is_wrong(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran]
) -> None:
    first, second, third = judged(asked)
    good = Verdict(dict.fromkeys(RULES, True), "ok", row_count=1)
    lost = Outcome(second.question.id, None, failure=Failure("backbone_error", "x", "It was silent.", True))
    scores = [
        replace(first, final=good, stages=dict.fromkeys(first.stages, good)),
        replace(second, outcome=lost, final=Verdict({}, "no_answer"), stages={}),
        third,
    ]
    run_id = keep(home, asked, scores, {"timeout_s": 7.0})
    ran = run_here("show", "latest")
    assert (ran.code, ran.err) == (0, "")
    for text in (
        "demo · offline · zero-shot",
        f"run {run_id}",
        "execution accuracy 33.33 % (1 of 3, rule bird, 95 % interval 6.1 to 79.2 %)",
        "1 of 3 questions has no answer (backbone_error) and counts as wrong: It was silent.",
        f"crosscheck rerun {run_id}",
        "2 s answering",
    ):
        assert text in ran.out, text
    assert len(ran.out.splitlines()) <= 40 and "question wrong of" not in ran.out
    details = run_here("show", "latest", "--details").out
    for text in (
        "1 question wrong of 3",
        "1 question unanswered of 3",
        f"crosscheck show {run_id} {third.question.id}",
        "2 of 3 questions are wrong; one may have several causes",
    ):
        assert text in details, text
    only = run_here("show", run_id[:17], "--unanswered").out
    assert "backbone_error" in only and "execution accuracy" not in only and "wrong of" not in only
    found = run_here("show", "latest", "--json").json
    assert [each["question_id"] for each in found["listed"]["wrong"]] == [third.question.id]
    assert [each["status"] for each in found["listed"]["unanswered"]] == ["backbone_error"]
    assert (found["correct"], found["total"], found["retryable"]) == (1, 3, 1)


@pytest.mark.slow
def test_a_question_shows_prompts_replies_and_the_result_beside_the_gold_s(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran]
) -> None:
    score = judged(asked)[1]
    keep(home, asked, judged(asked))
    id_, (heard, *_) = score.question.id, asked.heard[score.question.id]
    short, whole = run_here("show", "latest", id_), run_here("show", "latest", id_, "--prompts")
    assert (short.code, short.err) == (0, "")
    for text in (score.question.text, score.gold_sql, "prediction: ", "| gold: ", "rule bird"):
        assert text in short.out, text
    places = [
        short.out.index(title)
        for title in ("Predicted SQL", "Gold SQL", "Results,", "SQL by stage", "Model calls")
    ]
    assert places == sorted(places) and "wrong" in short.out[: places[0]].splitlines()[1]
    last_line = heard.prompt.strip().splitlines()[-1]
    assert last_line in whole.out and last_line not in short.out
    found = run_here("show", "latest", id_, "--json", "--rows", "1").json
    (call,) = [call for stage in found["stages"] for call in stage["calls"]][:1]
    assert call["reply"] == heard.reply
    assert "\n\n".join(each["content"] for each in call["messages"]) == heard.prompt
    assert score.gold_sql not in heard.prompt
    assert found["not_stored"] == "" and found["gold_sql"] == score.gold_sql
    assert found["gold_result"]["status"] == "ok" and len(found["gold_result"]["rows"]) <= 1


@pytest.mark.parametrize(("sql", "right", "remark"), [
    ("SELECT count(DISTINCT column1) FROM (VALUES (1), (1))", True, "the results differ, and the answer is right."),
    ("SELECT DISTINCT column1 FROM (VALUES (2), (2))", False, "the results are equal, and the answer is wrong."),
    ("SELECT DISTINCT column1 FROM (VALUES (2))", True, ""),  # equal with and without
    ("SELECT DISTINCT column1 FROM (VALUES (3))", False, ""),
])  # fmt: skip
def test_a_verdict_without_distinct_is_explained_beside_results_with_it(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran], sql: str, right: bool, remark: str
) -> None:
    score = judged(asked, right=right)[0]
    score = replace(score, outcome=replace(score.outcome, sql=sql), gold_sql="SELECT 2")
    for rule, said in (("spider", remark), ("strict", "")):
        keep(home, asked, [score], benchmark={"rule": rule})
        question = score.question.id
        shown = " ".join(run_here("show", "latest", question).out.split())
        assert ("Rule spider compares both queries without DISTINCT." in shown) is bool(said)
        assert run_here("show", "latest", question, "--json").json["results_remark"].endswith(said)
        assert said in shown


def test_replies_of_models_come_from_the_cache_and_their_absence_is_said(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran]
) -> None:
    identity, request = {"model": "m"}, Request((Message("user", "Which member?"),), None)
    key = request_key(identity, request)
    stages = tuple(
        StageRecord(
            "zero_shot",
            f"zero_shot_{name}",
            {},
            False,
            (Call(name, "m", Usage(), cached=False, seconds=1.0),),
        )
        for name in (key, KEY)
    )
    score = judged(asked)[0]
    score = replace(score, outcome=replace(score.outcome, stages=stages))
    paid = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9", "api_key_env": "NO_SUCH_KEY"}
    run_id = keep(home, asked, [score], paid)
    with open_reply_cache(home.replies) as cache:
        store_reply(cache, Reply("SELECT 1", stages[0].calls[0]), request, identity, "m")
    ran = run_here("show", "latest", score.question.id, "--prompts")
    assert (ran.code, ran.err) == (0, "")
    assert "Which member?" in ran.out and "SELECT 1" in ran.out
    assert "Which member?" not in run_here("show", "latest", score.question.id).out
    assert "prompt and reply are not stored" in ran.out
    assert "The prompts and replies of 1 of 2 requests are not stored" in ran.out
    assert f'"crosscheck rerun {run_id} --questions {score.question.id} --fresh"' in ran.out
    with closing(sqlite3.connect(home.replies)) as connection, connection:
        connection.execute("UPDATE reply SET request = x'00'")
    ran = run_here("show", "latest", score.question.id)
    assert ran.code == 0
    assert (
        "The prompts and replies of 2 of 2 requests are not stored" in ran.out
        and "they are damaged there" in ran.out
    )


def test_without_the_benchmark_s_files_everything_else_is_shown(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran]
) -> None:
    scores = judged(asked)
    keep(home, asked, scores, benchmark={"layout": "bird", "folder": str(home.path / "away")})
    ran = run_here("show", "latest", scores[0].question.id)
    assert ran.code == 0, ran.err
    assert scores[0].gold_sql in ran.out and f"there is no folder {home.path / 'away'}" in ran.out
    listed = run_here("show", "latest", "--wrong")
    assert listed.code == 0 and "3 questions wrong of 3" in listed.out
    assert "The causes cannot be read" in listed.out


@pytest.mark.parametrize(("arguments", "message"), [
    (("nope",), 'There is no run "nope"'),
    (("latest", "000"), "SELECT question_id FROM questions WHERE run_id"),
    (("latest", "9999"), "It has 3, from "),
    (("latest", "0", "--wrong"), "leave QUESTION out"),
    (("latest", "--prompts"), "--prompts needs a question"),
])  # fmt: skip
def test_bad_input_is_one_message(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran], arguments: tuple[str, ...], message: str
) -> None:
    keep(home, asked, judged(asked))
    ran = run_here("show", *arguments)
    assert ran.code == 2 and message in ran.err and "Traceback" not in ran.err and ran.out == ""


class Terminal(io.StringIO):
    """Text that a terminal is sent."""

    def isatty(self) -> bool:
        return True


def test_a_long_and_hostile_question_is_one_line_whole_in_a_pipe_and_as_wide_as_a_terminal(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    (score, *_) = judged(asked)
    text = "a \x1b[2J\nvery " + "long " * 60
    run_id = keep(home, asked, [replace(score, question=replace(score.question, text=text))])
    (line,) = [line for line in run_here("show", "latest", "--wrong").out.splitlines() if "very" in line]
    assert line.endswith("a ␛[2J very " + " ".join(["long"] * 60))
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    view = view_run(Warehouse(home.warehouse).read_run(run_id), Folders(home.path, home))
    print_lists(view, {"wrong": view.wrong}, 1, terminal)
    (line,) = [line for line in terminal.getvalue().splitlines() if "very" in line]
    assert 70 < len(line) <= 80 and line.endswith("…") and "\x1b[2J" not in line
    assert (
        json.loads(run_here("show", "latest", "--wrong", "--json").out)["listed"]["wrong"][0]["question"]
        == text
    )


def test_the_first_screen_is_made_without_the_benchmarks_files_and_lists_with_them(
    home: Home, asked: OfflineRun, run_here: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(home.warehouse)
    record = warehouse.read_run(keep(home, asked, judged(asked)))
    warehouse.finish(record.model_copy(update={"metrics": {**record.metrics, "errors": {}}}))
    read: list[str] = []
    monkeypatch.setattr(
        "flows.evaluate.paper_tables.schemas_of", lambda run, folders: read.append(run.run_id) or {}
    )
    assert "execution accuracy" in run_here("show", "latest").out and not read
    assert run_here("show", "latest", "--wrong").out and len(read) == 1

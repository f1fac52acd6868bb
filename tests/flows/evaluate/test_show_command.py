"""`crosscheck show`: a run and its questions, from what is stored, on 80 columns and as JSON."""

import io
import json
import shlex
import sqlite3
from collections.abc import Callable
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
from tasks.results.run_record import RunRecord
from tasks.scoring.scores import Verdict
from tasks.settings.home import Home
from tests.support.command_line import Ran
from tests.support.kept_runs import RIGHT, KeptRuns
from tests.support.stored_replies import store_reply


@pytest.fixture
def runs(run_here: Callable[..., Ran], tmp_path: Path) -> KeptRuns:
    return KeptRuns(Home(tmp_path / "home"), run_here)


def test_a_run_shows_its_scores_its_settings_and_what_is_wrong(runs: KeptRuns) -> None:
    first, second, third = runs.judged()
    lost = Outcome(second.question.id, None, failure=Failure("backbone_error", "x", "It was silent.", True))
    scores = [
        replace(first, final=RIGHT, stages=dict.fromkeys(first.stages, RIGHT)),
        replace(second, outcome=lost, final=Verdict({}, "no_answer"), stages={}),
        third,
    ]
    run_id = runs.keep(scores, backbone={"timeout_s": 7.0})
    shown, details = runs.show(), runs.show("--details")
    for text in (
        "demo · offline · zero-shot",
        f"run {run_id}",
        "execution accuracy 33.33 % (1 of 3, rule bird, 95 % interval 6.1 to 79.2 %)",
        "1 of 3 questions has no answer (backbone_error) and counts as wrong: It was silent.",
        f"crosscheck rerun {run_id}",
        "2 s answering",
    ):
        assert text in shown, text
    assert len(shown.splitlines()) <= 40 and "questions wrong" not in shown
    for text in (
        "1 of 3 questions wrong",
        "1 of 3 questions unanswered",
        f"crosscheck show {run_id} {third.question.id}",
        "2 of 3 questions are wrong; one may have several causes",
    ):
        assert text in details, text
    only = runs.run("show", run_id[:17], "--unanswered").out
    assert "backbone_error" in only and "execution accuracy" not in only and "questions wrong" not in only
    heading = "1 of 3 questions wrong; 1 without an answer (--unanswered lists them)"
    assert heading in runs.run("show", run_id, "--wrong").out
    found = json.loads(runs.show("--json"))
    assert [each["question_id"] for each in found["listed"]["wrong"]] == [third.question.id]
    assert [each["status"] for each in found["listed"]["unanswered"]] == ["backbone_error"]
    assert (found["correct"], found["total"], found["retryable"]) == (1, 3, 1)


def test_the_commands_below_a_list_name_the_same_folders_and_quote_the_id(runs: KeptRuns) -> None:
    (score, *_) = runs.judged()
    run_id = runs.keep([replace(score, question=replace(score.question, id="it's 7"))])
    folders = ("--data", str(runs.home.path), "--home", str(runs.home.path))
    shown = " ".join(runs.run("show", run_id, "--wrong", *folders).out.split())
    options, quoted = " ".join(folders), shlex.quote("it's 7")
    assert f"crosscheck show {run_id} {quoted} {options}" in shown
    first_screen = runs.run("show", run_id, *folders).out
    assert f"crosscheck show {run_id} --wrong {options}" in first_screen
    page = runs.page().read_text(encoding="utf-8")
    assert 'href="#questions-wrong"' in page and 'href="#questions-unanswered"' not in page


def test_a_run_whose_wrong_questions_have_no_answer_leads_to_these(runs: KeptRuns) -> None:
    (score, *_) = runs.judged()
    silent = replace(score, outcome=Outcome(score.question.id, None), final=Verdict({}, "no_answer"))
    run_id = runs.keep([silent])
    assert f"crosscheck show {run_id} --unanswered" in runs.show()
    page = runs.page().read_text(encoding="utf-8")
    assert 'href="#questions-unanswered"' in page and 'href="#questions-wrong"' not in page
    assert f"crosscheck show {run_id} --unanswered" in page


@pytest.mark.slow
def test_a_question_shows_prompts_replies_and_the_result_beside_the_gold_s(runs: KeptRuns) -> None:
    score = runs.judged()[1]
    runs.keep(runs.judged())
    id_, (heard, *_) = score.question.id, runs.asked.heard[score.question.id]
    short, whole = runs.show(id_), runs.show(id_, "--prompts")
    for text in (score.question.text, score.gold_sql, "prediction: ", "| gold: ", "rule bird"):
        assert text in short, text
    titles = (
        "Predicted SQL",
        "Gold SQL",
        "Results,",
        "SQL by stage",
        "Model calls, and what stages returned",
    )
    places = [short.index(title) for title in titles]
    assert places == sorted(places) and "wrong" in short[: places[0]].splitlines()[1]
    last_line = heard.prompt.strip().splitlines()[-1]
    assert last_line in whole and last_line not in short
    found = json.loads(runs.show(id_, "--json", "--rows", "1"))
    (call,) = [call for stage in found["stages"] for call in stage["calls"]][:1]
    assert call["reply"] == heard.reply
    assert "\n\n".join(each["content"] for each in call["messages"]) == heard.prompt
    assert score.gold_sql not in heard.prompt
    assert found["not_stored"] == "" and found["gold_sql"] == score.gold_sql
    assert found["gold_result"]["status"] == "ok" and len(found["gold_result"]["rows"]) <= 1


def test_a_question_shows_what_a_stage_without_calls_returned_beside_its_sql(runs: KeptRuns) -> None:
    score = runs.judged()[0]
    value = {"sql": "SELECT 'hidden'", "tables": ["hall"], "columns": [{"table": "hall", "column": "id"}]}
    record = StageRecord("backward_link", "backward_link", value, restored=False)
    outcome = replace(score.outcome, stages=(*score.outcome.stages, record))
    runs.keep([replace(score, outcome=outcome)])
    printed = runs.show(score.question.id)
    assert "backward_link" in printed and "tables: hall; columns: hall.id" in printed
    assert "SELECT 'hidden'" not in printed


@pytest.mark.parametrize(("sql", "right", "remark"), [
    ("SELECT count(DISTINCT column1) FROM (VALUES (1), (1))", True, "the results differ, and the answer is right."),
    ("SELECT DISTINCT column1 FROM (VALUES (2), (2))", False, "the results are equal, and the answer is wrong."),
    ("SELECT DISTINCT column1 FROM (VALUES (2))", True, ""),  # equal with and without
    ("SELECT DISTINCT column1 FROM (VALUES (3))", False, ""),
])  # fmt: skip
def test_a_verdict_without_distinct_is_explained_beside_results_with_it(
    runs: KeptRuns, sql: str, right: bool, remark: str
) -> None:
    score = runs.judged(right=right)[0]
    score = replace(score, outcome=replace(score.outcome, sql=sql), gold_sql="SELECT 2")
    for rule, said in (("spider", remark), ("strict", "")):
        runs.keep([score], benchmark={"rule": rule})
        shown = " ".join(runs.show(score.question.id).split())
        assert ("Rule spider compares both queries without DISTINCT." in shown) is bool(said)
        assert json.loads(runs.show(score.question.id, "--json"))["results_remark"].endswith(said)
        assert said in shown


def test_replies_of_models_come_from_the_cache_and_their_absence_is_said(runs: KeptRuns) -> None:
    identity, request = {"model": "m"}, Request((Message("user", "Which member?"),), None)
    stages = tuple(
        StageRecord("zero_shot", f"zero_shot_{name}", {}, False, (Call(name, "m", Usage(), False, 1.0),))
        for name in (request_key(identity, request), "ab" * 32)
    )
    score = runs.judged()[0]
    score = replace(score, outcome=replace(score.outcome, stages=stages))
    paid = {"kind": "openai", "model": "m", "base_url": "http://127.0.0.1:9", "api_key_env": "NO_SUCH_KEY"}
    run_id, question = runs.keep([score], backbone=paid), score.question.id
    with open_reply_cache(runs.home.replies) as cache:
        store_reply(cache, Reply("SELECT 1", stages[0].calls[0]), request, identity, "m")
    shown = runs.show(question, "--prompts")
    assert "Which member?" in shown and "SELECT 1" in shown
    assert "Which member?" not in runs.show(question)
    assert "prompt and reply are not stored" in shown
    assert "The prompts and replies of 1 of 2 requests are not stored" in shown
    assert f'"crosscheck rerun {run_id} --questions {question} --fresh"' in shown
    with closing(sqlite3.connect(runs.home.replies)) as connection, connection:
        connection.execute("UPDATE reply SET request = x'00'")
    shown = runs.run("show", "latest", question).out
    assert "The prompts and replies of 2 of 2 requests are not stored" in shown
    assert "they are damaged there" in shown


def test_without_the_benchmark_s_files_everything_else_is_shown(runs: KeptRuns) -> None:
    scores, away = runs.judged(), runs.home.path / "away"
    runs.keep(scores, benchmark={"layout": "bird", "folder": str(away)})
    shown = runs.show(scores[0].question.id)
    assert scores[0].gold_sql in shown and f"there is no folder {away}" in shown
    listed = runs.show("--wrong")
    assert "3 of 3 questions wrong" in listed and "The causes cannot be read" in listed


@pytest.mark.parametrize(("arguments", "message"), [
    (("nope",), 'There is no run "nope"'),
    (("latest", "000"), "SELECT question_id FROM questions WHERE run_id"),
    (("latest", "9999"), "It has 3, from "),
    (("latest", "0", "--wrong"), "leave QUESTION out"),
    (("latest", "--prompts"), "--prompts needs a question"),
])  # fmt: skip
def test_bad_input_is_one_message(runs: KeptRuns, arguments: tuple[str, ...], message: str) -> None:
    runs.keep(runs.judged())
    runs.run("show", *arguments).assert_refused(message)


class Terminal(io.StringIO):
    """Text that a terminal is sent."""

    def isatty(self) -> bool:
        return True


def test_a_long_and_hostile_question_is_one_line_whole_in_a_pipe_and_as_wide_as_a_terminal(
    runs: KeptRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    (score, *_) = runs.judged()
    text = "a \x1b[2J\nvery " + "long " * 60
    run_id = runs.keep([replace(score, question=replace(score.question, text=text))])
    (line,) = [line for line in runs.show("--wrong").splitlines() if "very" in line]
    assert line.endswith("a ␛[2J very " + " ".join(["long"] * 60))
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    view = view_run(runs.warehouse.read_run(run_id), Folders(runs.home.path, runs.home))
    print_lists(view, {"wrong": view.wrong}, 1, terminal)
    (line,) = [line for line in terminal.getvalue().splitlines() if "very" in line]
    assert 70 < len(line) <= 80 and line.endswith("…") and "\x1b[2J" not in line
    (listed,) = json.loads(runs.show("--wrong", "--json"))["listed"]["wrong"]
    assert listed["question"] == text


def test_the_first_screen_is_made_without_the_benchmarks_files_and_lists_with_them(
    runs: KeptRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = runs.warehouse.read_run(runs.keep(runs.judged()))
    runs.warehouse.finish(record.model_copy(update={"metrics": {**record.metrics, "errors": {}}}))
    read: list[str] = []
    monkeypatch.setattr(
        "flows.evaluate.paper_tables.schemas_of", lambda run, folders: read.append(run.run_id) or {}
    )
    assert "execution accuracy" in runs.show() and not read
    assert runs.show("--wrong") and len(read) == 1


def test_a_run_that_was_killed_has_no_number_of_the_questions_that_happened_to_be_stored(
    runs: KeptRuns,
) -> None:
    """`runs --json` has null for each of its counts and for its score, and so has everything that shows the run."""
    first, second, third = runs.judged()
    lost = Outcome(second.question.id, None, failure=Failure("backbone_error", "x", "It was silent.", True))
    kept = runs.warehouse.read_run(runs.keep([first, second, third]))
    run = kept.model_copy(update={"run_id": "20261121-020000-killed", "status": "running"})
    begun = {name: field.get_default() for name, field in RunRecord.model_fields.items()}
    unknown = ("scores", "rows", "stages", "by_difficulty", "by_database", "cost", "metrics", "degradation")
    counts = (
        "questions",
        "scored",
        "answered",
        "unanswered",
        "retryable",
        "ex",
        "correct",
        "total",
        "low",
        "high",
    )
    run = run.model_copy(update={name: begun[name] for name in (*unknown, *counts)})
    runs.warehouse.start(run)
    right = replace(first, final=RIGHT, stages=dict.fromkeys(first.stages, RIGHT))
    runs.warehouse.append_questions(run, [right, replace(second, outcome=lost, stages={})])
    runs.warehouse.abandon(run.run_id, "killed")
    found, listed = (
        json.loads(runs.run(*words, "--json").out) for words in (("show", run.run_id), ("runs",))
    )
    assert found["status"] == "killed" and found["cost"]["calls"] is not None
    header = next(one for one in listed["runs"] if one["run_id"] == run.run_id)
    assert {name: found[name] for name in header} == header
    assert found["ex"] is found["total"] is found["questions"] is None and found["scores"] == {}
    shown = runs.run("show", run.run_id, "--details")
    assert shown.code == 0 and "%" not in shown.out and "no execution accuracy" in shown.out
    assert "1 of 2 questions has no answer (backbone_error)" in shown.out
    assert "1 of 2 questions unanswered" in shown.out

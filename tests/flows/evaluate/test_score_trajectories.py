"""`crosscheck score --trajectories`: turns on the demo, on the terminal, as JSON, in MLflow and on the page."""

import base64
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from tasks.results.mlflow.store import import_store
from tasks.results.run_record import RunRecord
from tests.support.demo import demo_questions
from tests.support.in_process import run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("in_home")]

Questions = list[dict[str, Any]]
COST = {"model": "m-1", "input_tokens": 900, "output_tokens": 30, "cost_usd": 0.001, "seconds": 0.5}
PACKED = re.compile(r'<script type="text/plain"([^>]*)>([^<]*)</script>')


@pytest.fixture
def demo(home: Path) -> Questions:
    return demo_questions(home)[:6]


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., str]:
    def write(*lines: Any) -> str:
        file = tmp_path / "analyst.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        return str(file)

    return write


def executed(sql: str, error: bool = False) -> dict[str, Any]:
    call = {"name": "run_sql", "arguments": {"sql": sql}, "result": "a result", "error": error}
    return {"text": "I try this.", "tool_calls": [call], **COST}


def submitted(sql: str) -> dict[str, Any]:
    call = {"name": "submit", "arguments": {"sql": sql}, "error": False}
    return {"text": "", "tool_calls": [call], **COST}


def lines(demo: Questions) -> list[dict[str, Any]]:
    """Question 0 finds the gold, 1 finds and loses it, 2 is wrong, 3 is left out, 4 and 5 have one turn."""
    gold = [question["SQL"] for question in demo]
    turns = {
        0: [executed("SELECT nothing", error=True), executed(gold[0]), submitted(gold[0])],
        1: [executed(gold[1]), submitted("SELECT 'lost'")],
        2: [executed("SELECT 1"), executed("SELECT 1")],
        4: [submitted(gold[4])],
        5: [submitted(gold[5])],
    }
    return [{"question_id": demo[place]["question_id"], "turns": each} for place, each in turns.items()]


def score(file: str, *more: str) -> Any:
    ran = run("score", "--trajectories", file, "--questions", "0-5", "--json", *more)
    assert ran.code == 0, ran.err
    return ran.json


def test_turns_are_scored_with_fixed_broken_cost_and_what_was_lost(
    demo: Questions, write: Callable[..., str]
) -> None:
    found = score(write(*lines(demo)))
    assert RunRecord.model_validate(found)
    assert (found["backbone"], found["correct"], found["total"]) == ("analyst", 3, 6)
    assert found["stages"] == [] and found["metrics"]["unanswered"] == ["3"]
    turns = found["metrics"]["turns"]
    names = ("turn", "correct", "total", "fixed", "broken", "running")
    assert [tuple(each[name] for name in names) for each in turns["curve"]] == [
        (1, 3, 6, None, None, 5), (2, 3, 6, 1, 1, 3), (3, 3, 6, 0, 0, 1)
    ]  # fmt: skip
    assert [each["usd"] for each in turns["curve"]] == pytest.approx([0.001, 0.0016, 0.0018])
    assert turns["lost"] == {"correct": 1, "total": 6, "value": 1 / 6, "questions": ["1"]}
    assert turns["tool_errors"] == {"correct": 1, "total": 9, "value": 1 / 9}
    assert turns["repeated_queries"]["correct"] == 1
    assert turns["submitted"] == {"correct": 4, "total": 6, "value": 4 / 6}
    assert (found["cost"]["calls"], found["cost"]["input_tokens"]) == (9, 8_100)
    assert found["cost"]["cost_usd"] == pytest.approx(0.009) and found["cost"]["cached_calls"] is None
    assert found["stage_costs"]["turn"] == found["cost"]
    assert found["predictions"]["format"] == "trajectories"


def test_what_the_file_does_not_say_is_unknown_on_every_display(
    demo: Questions, write: Callable[..., str], tmp_path: Path
) -> None:
    call = {"name": "submit", "arguments": {"sql": demo[0]["SQL"]}}
    file = write({"question_id": 0, "turns": [{"text": "Here.", "tool_calls": [call]}]})
    found = score(file)
    assert found["cost"]["calls"] == 1
    assert found["cost"]["input_tokens"] is found["cost"]["cost_usd"] is None
    assert found["metrics"]["turns"]["tool_errors"] is None
    page = tmp_path / "page.html"
    printed = [
        run("score", "--trajectories", file, "--questions", "0-5").out,
        run("show", found["run_id"]).out,
        run("show", found["run_id"], "0").out,
    ]
    assert run("show", found["run_id"], "--html", str(page)).code == 0
    for text in (*printed, page.read_text(encoding="utf-8")):
        assert "$0.0000" not in text and "0 tokens" not in text and "0.00 s" not in text
    assert "unknown how many failed" in printed[0] and "cost per question: unknown" in printed[0]


def test_the_summary_has_the_curve_in_a_few_lines(demo: Questions, write: Callable[..., str]) -> None:
    out = run("score", "--trajectories", write(*lines(demo)), "--questions", "0-5", "--details").out
    table = out[out.index("Execution accuracy if the agent") : out.index("Scores")].strip().splitlines()
    assert len(table) == 7  # title, header, rule, three turns, caption
    assert re.search(r"\n2 +50\.00 % +3 of 6 +\S+ to \S+ % +1 +1 +3 +\$0\.0016", out)
    first = run("score", "--trajectories", write(*lines(demo)), "--questions", "0-5").out
    assert "\nEX if the agent is stopped after turn 1: 50.00 %, 2: 50.00 %, 3: 50.00 %\n" in first
    assert "Execution accuracy if the agent" not in first and len(first.splitlines()) <= 20
    for text in (out, first):
        assert "Had it right and lost it: 16.67 % (1/6) (1)" in text
        assert "Tool calls: 9; 1 of 9 failed (1 failed); repeated queries: 1 of 9" in text
        assert "Tokens per turn: 900 in, 30 out; cost per question: $0.0018" in text


def test_a_question_is_shown_as_a_conversation_with_the_verdict_on_each_sql(
    demo: Questions, write: Callable[..., str]
) -> None:
    run_id = score(write(*lines(demo)))["run_id"]
    out = run("show", run_id, "1").out
    first, second = re.split(r"^turn(?: 2)?  ", out, flags=re.MULTILINE)[1:]
    assert first.startswith("right  900 tokens in, 30 out, $0.0010, 0.50 s\n    I try this.\n  run_sql\n")
    assert demo[1]["SQL"] in " ".join(first.split()) and "result\n    a result" in first
    assert second.startswith("wrong, submitted  ") and "SELECT 'lost'" in second
    assert "rerun" not in out and "SQL by stage" not in out
    shown = run("show", run_id, "0").out
    assert "turn  no SQL yet" in shown and "run_sql  failed" in shown
    assert "turn 3  right, the same SQL as before, submitted" in shown
    as_json = run("show", run_id, "0", "--json").json
    assert [each["correct"] for each in as_json["candidates"]] == [False, True, True]
    assert as_json["stages"][0]["value"]["calls"][0]["error"] == "failed"


def test_the_page_has_the_curve_the_conversation_and_a_filter_for_lost_answers(
    demo: Questions, write: Callable[..., str], tmp_path: Path
) -> None:
    run_id, page = score(write(*lines(demo)))["run_id"], tmp_path / "page.html"
    assert run("show", run_id, "--html", str(page)).code == 0
    text = page.read_text(encoding="utf-8")
    assert "Execution accuracy if the agent is stopped after a turn" in text and "<svg" in text
    assert "right after a turn, and lost" in text and "by turn_" not in text
    packed = [json.loads(zlib.decompress(base64.b64decode(each))) for _, each in PACKED.findall(text)]
    shown = next(each for each in packed if isinstance(each, dict) and each["question_id"] == "1")
    assert [stage["value"]["sql"] for stage in shown["stages"]] == [demo[1]["SQL"], "SELECT 'lost'"]
    assert all(stage["calls"] == [] for stage in shown["stages"])


def test_mlflow_has_the_curve_as_a_series_and_the_cost_of_two_agents_is_compared(
    demo: Questions, write: Callable[..., str]
) -> None:
    found = score(write(*lines(demo)))
    import_store()
    client = MlflowClient(tracking_uri=found["mlflow"]["tracking_uri"])
    run_id = found["mlflow"]["run_id"]
    curve = client.get_metric_history(run_id, "turns/ex_after")
    assert [(each.step, each.value) for each in curve] == [(1, 0.5), (2, 0.5), (3, 0.5)]
    logged = client.get_run(run_id).data.metrics
    assert (logged["turns/lost"], logged["turns/most"], logged["usage/input_tokens"]) == (0.166667, 3, 8_100)
    second = score(write(*lines(demo)[:-1]), "--name", "other")["run_id"]
    compared = run("compare", found["run_id"], second, "--json").json
    assert [compared[side]["cost"]["calls"] for side in "ab"] == [9, 8]
    assert not [each for each in compared.get("by_stage", ()) if "turn" in json.dumps(each)]


@pytest.mark.parametrize(("arguments", "message"), [
    ([], "Give one of --predictions FILE and --trajectories FILE."),
    (["--predictions", "a.csv", "--trajectories", "b.jsonl"], "Give one of --predictions FILE"),
    (["--trajectories", "b.jsonl", "--by-position"], "are for --predictions only"),
    (["--predictions", "a.csv", "--trials", "5"], "--trials counts the measurements of --efficiency"),
    (["--trajectories", "absent.jsonl"], "absent.jsonl cannot be read: No such file or directory."),
])  # fmt: skip
def test_the_options_that_do_not_fit_are_refused(arguments: list[str], message: str) -> None:
    run("score", *arguments).assert_refused(message)


def test_questions_that_the_benchmark_lacks_and_questions_twice_are_named(
    demo: Questions, write: Callable[..., str]
) -> None:
    known = lines(demo)
    found = score(write(*known, {"question_id": "x9", "turns": []}))
    assert any("has no such question: 1 prediction (x9)" in note for note in found["notes"])
    for content, *said in (
        ([{"question_id": "x9", "turns": []}], 'They look like "x9"'),
        ([*known, known[0]], "line 6: question 0 already has a prediction at", "line 1"),
        ([{**known[0], "database": "elsewhere"}], 'line 1: names the database "elsewhere"'),
    ):
        run("score", "--trajectories", write(*content)).assert_refused(*said)

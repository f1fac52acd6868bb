"""Recording and replaying evaluations, as users do it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.backbone.recordings import write_recording
from tasks.benchmarks.layouts import layout_of
from tasks.results.warehouse.runs import Warehouse
from tests.published.rsl_sql_release import read_release, recorded_replies
from tests.support import in_process
from tests.support.command_line import CommandLine, Ran
from tests.support.fake_openai import FakeOpenAI, error

SAME = ("ex", "scores", "stages", "links", "by_difficulty", "answered")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def replayed(path: Path, *more: str) -> tuple[str, ...]:
    source = ("--set", f"backbone.recording={path}")
    return ("evaluate", "--pipeline", "rsl-sql", "--backbone", "replay", *source, "--json", *more)


def found(ran: Ran) -> dict[str, Any]:
    assert ran.code == 0, ran.err
    assert "Traceback" not in ran.out + ran.err
    return {key: ran.json[key] for key in SAME}


def kept_summaries(demo: CommandLine, ran: Ran) -> list[Any]:
    """What the summaries in the warehouse and in MLflow say of the replay."""
    from mlflow import MlflowClient
    from mlflow.artifacts import download_artifacts

    stored = Warehouse(demo.home / "warehouse.duckdb").read_run(ran.json["run_id"])
    client = MlflowClient(ran.json["mlflow"]["tracking_uri"])
    uri = client.get_run(ran.json["mlflow"]["run_id"]).info.artifact_uri
    logged = json.loads(Path(download_artifacts(f"{uri}/summary.json")).read_text(encoding="utf-8"))
    return [stored.replay, logged.get("replay")]


@pytest.mark.slow
def test_a_bought_run_is_recorded_from_the_cache_and_replayed_without_its_model(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, tmp_path: Path
) -> None:
    path, again, three = tmp_path / "run.jsonl", tmp_path / "again.jsonl", ("--questions", "5-7")
    evaluate = ("evaluate", "--pipeline", "rsl-sql", "--backbone", backbone_file, *three, "--json")
    first = demo.run(*evaluate)
    asked = len(model.requests)
    recorded = demo.run(*evaluate, "--record", str(path))
    assert found(recorded) == found(first)
    replies = lines(path)
    assert len(replies) == first.json["cost"]["calls"]
    assert {reply["model"] for reply in replies} == {"local-model"}
    assert sum(reply["usage"]["output"] for reply in replies) == first.json["cost"]["output_tokens"]
    assert {reply["round"] for reply in replies} == {0, 1}, "one question is corrected in a second turn"
    assert f"{len(replies)} replies were recorded in" in recorded.err and "for 3 questions." in recorded.err

    exact = ("--set", "backbone.match=request", "--record", str(again))
    replay = demo.run(*replayed(path, *three, *exact))
    assert found(replay) == found(first)
    assert len(model.requests) == asked, "neither the recording nor the replay asked anything"
    assert replay.json["cost"]["calls"] == 0 and replay.json["cost"]["cached_calls"] == len(replies)
    assert f"{len(replies)} by exact request, 0 by question" in replay.err
    served = {"by_request": len(replies), "by_stage": 0, "missing": 0}
    assert [replay.json["replay"], *kept_summaries(demo, replay)] == [served] * 3
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.slow
def test_a_replay_asks_no_eliminator(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, tmp_path: Path
) -> None:
    path, eliminator = tmp_path / "run.jsonl", tmp_path / "eliminator.yaml"
    settings = f"kind: openai\nmodel: eliminator\nbase_url: {model.base_url}\nresponse_mode: text\n"
    eliminator.write_text(settings, encoding="utf-8")
    ordinary = model.answer
    model.answer = lambda body: "SELECT 42" if body["model"] == "eliminator" else ordinary(body)
    sea = ("--pipeline", "sea-sql", "--set", f"pipeline.eliminator={eliminator}", "--limit", "2", "--json")
    first = demo.run("evaluate", "--backbone", backbone_file, "--record", str(path), *sea)
    assert first.code == 0, first.err
    assert sum(line.get("stage") == "bias_elimination" for line in lines(path)) == 2
    requests = len(model.requests)
    eliminator.write_text(f"{settings}api_key_env: CROSSCHECK_NO_SUCH_KEY\n", encoding="utf-8")
    replay = demo.run(*replayed(path, *sea))
    assert found(replay) == found(first)
    assert len(model.requests) == requests
    served = replay.json["replay"]
    assert (served["by_request"], served["missing"]) == (len(lines(path)), 0)
    rows = Warehouse(demo.home / "warehouse.duckdb").read_run(replay.json["run_id"]).rows
    steps = [{step.stage: step.sql for step in row.outcome.candidates} for row in rows]
    assert [step["2_bias_elimination"] for step in steps] == ["SELECT 42"] * 2


@pytest.mark.slow
def test_a_reply_that_is_missing_fails_its_question_alone_and_a_changed_prompt_is_said(
    demo: CommandLine, tmp_path: Path
) -> None:
    path, cut = tmp_path / "run.jsonl", tmp_path / "cut.jsonl"
    command = ("evaluate", "--pipeline", "rsl-sql", "--limit", "3", "--json", "--record")
    first = demo.run(*command, str(path))
    whole = path.read_bytes()
    restored = demo.run(*command, str(path))
    assert found(restored) == found(first)
    assert path.read_bytes() == whole, "the offline model is not cached: it is asked anew for a recording"

    replies = lines(path)
    gone = next(reply for reply in replies if reply["stage"] == "augmented_sql")
    cut.write_text("".join(json.dumps(reply) + "\n" for reply in replies if reply is not gone))
    ran = demo.run(*replayed(cut, "--limit", "3", "--set", "pipeline.prompt.sample_rows=1"))
    assert ran.code == 0, ran.err
    assert ran.json["failures"] == {"backbone_error": 1} and ran.json["retryable"] == 0
    assert ran.json["answered"] == 2 and ran.json["total"] == 3
    stages = {stage["name"]: stage["correct"] for stage in ran.json["stages"]}
    assert stages["1_preliminary_sql"] == first.json["stages"][0]["correct"]
    assert "3 by exact request" in ran.err, "the conditions are asked for without the schema"
    assert "1 not in the recording" in ran.err
    missing = f"no recorded reply for question {gone['question']}, stage augmented_sql, round 0 in {cut}"
    assert missing in demo.run("query", "SELECT failure FROM questions", "--json").out.replace("\\/", "/")


@pytest.mark.slow
def test_a_recording_without_a_reply_to_any_question_is_a_wrong_setting_that_no_repetition_corrects(
    demo: CommandLine, tmp_path: Path
) -> None:
    (empty := tmp_path / "empty.jsonl").touch()
    demo.run(*replayed(empty, "--limit", "2")).assert_refused(
        "no recorded reply for question", "which is empty"
    )
    other = tmp_path / "other.jsonl"
    other.write_text(
        '{"question": "0", "database": "energy_grid", "stage": "zero_shot", "round": 0, "reply": "SELECT 1"}\n'
    )
    demo.run(*replayed(other, "--limit", "2")).assert_refused("none of this stage: another pipeline")


def test_what_cannot_be_recorded_is_said_before_anything_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    nowhere = in_process.run("evaluate", "--pipeline", "rsl-sql", "--record", "no-such-folder/run.jsonl")
    nowhere.assert_refused("there is no folder")
    (path := tmp_path / "run.jsonl").touch()
    itself = in_process.run(*replayed(path, "--record", str(path)))
    itself.assert_refused("this is the recording that is replayed")


@pytest.mark.slow
def test_a_recording_is_completed_by_its_own_evaluation_and_kept_from_any_other(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    command = ("evaluate", "--pipeline", "zero-shot", "--backbone", backbone_file, "--record", str(path))
    model.script(error(400, "not today", code="content_filter"))
    first = demo.run(*command, "--limit", "2")
    assert first.code in (0, 3) and len(lines(path)) == 1, first.err
    refuses_to_replace(path, demo, model, *command, "--limit", "2", "--set", "backbone.temperature=0.5")
    refuses_to_replace(path, demo, model, *command, "--limit", "2", "--pipeline", "few-shot")

    completed = demo.run(*command, "--limit", "3", "--json")
    assert completed.code == 0, completed.err
    assert [line["question"] for line in lines(path)] == ["0", "1", "2"]
    assert completed.json["recorded"]["file"] == str(path)
    refuses_to_replace(path, demo, model, *command, "--limit", "2")

    mode = (*command[:-1], str(tmp_path / "auto.jsonl"), "--set", "backbone.response_mode=auto", "--limit")
    for limit in ("1", "2"):
        ran = demo.run(*mode, limit)
        assert ran.code == 0, ran.err
    assert [line["question"] for line in lines(tmp_path / "auto.jsonl")] == ["0", "1"]


def refuses_to_replace(path: Path, demo: CommandLine, model: FakeOpenAI, *command: str) -> None:
    before, asked = path.read_bytes(), len(model.requests)
    ran = demo.run(*command)
    ran.assert_refused(f"--record {path}: the file exists")
    assert path.read_bytes() == before and len(model.requests) == asked


@pytest.mark.slow
def test_without_a_database_the_stages_that_execute_nothing_run_and_linking_counts_them(
    crosscheck: CommandLine, shared_data: Path, tmp_path: Path
) -> None:
    path = tmp_path / "rsl-sql.jsonl"
    questions = layout_of("bird").read_split(shared_data / "bird" / "dev.json").questions
    assert write_recording(path, recorded_replies(read_release(shared_data), questions)) == 10_787
    bird = ("--benchmark", "bird-dev", "--data", str(shared_data), "--questions", "0-4,717-719,803,817")
    ran = crosscheck.run(*replayed(path, *bird, "--set", "pipeline.demonstrations.k=0"))
    assert ran.code == 0, ran.err
    result = ran.json
    assert (result["questions"], result["scored"], result["answered"]) == (10, 5, 5)
    assert result["missing_databases"] == {"california_schools": 5}
    assert result["not_executable"] == {"binary_selection": 5}
    assert result["failures"] == {}
    assert {stage["total"] for stage in result["stages"]} == {5}
    assert result["stages"][-1]["fixed"] == 2, "803 and 817 are corrected with what GPT-4o said"
    assert {link["name"]: link for link in result["links"]}["both"]["strict_recall"]["total"] == 10
    assert "0 failed" not in ran.err and "5 of 10 questions were run with only the schema" in ran.err


def test_a_model_is_not_paid_for_questions_that_only_have_a_schema(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    benchmark = ("--benchmark", "bird-dev", "--data", str(shared_data), "--questions", "0-2")
    ran = in_process.run("evaluate", "--pipeline", "rsl-sql", *benchmark)
    ran.assert_refused("none of the databases")

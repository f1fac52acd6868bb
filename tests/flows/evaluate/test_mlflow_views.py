"""What MLflow has for people who compare: traces with prompts and replies, evaluation runs, a view of a sweep."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Trace

from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.scores import QuestionScore
from tests.support.command_line import CommandLine
from tests.support.fake_openai import FakeOpenAI
from tests.support.gold_model import GoldModel

pytestmark = pytest.mark.slow


def traces_of(run: dict[str, Any]) -> dict[str, Trace]:
    client = MlflowClient(run["mlflow"]["tracking_uri"])
    run_id = run["mlflow"]["run_id"]
    experiment = client.get_run(run_id).info.experiment_id
    found = client.search_traces(locations=[experiment], run_id=run_id, max_results=100)
    return {one.info.tags["question_id"]: one for one in found}


def calls_of(trace: Trace) -> list[Any]:
    return [span for span in trace.data.spans if span.span_type == "CHAT_MODEL"]


NO_FAILED = ("--set", "tracking.failed_traces=0")


def test_prompts_and_replies_of_a_bought_answer_are_shown_when_it_is_restored_too(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    command = ("evaluate", "--backbone", backbone_file, "--pipeline", "few-shot", "--limit", "3", "--json")
    first, second = (
        demo.run(*command),
        demo.run(*command, "--genai-evaluation", *NO_FAILED, "--set", "tracking.sample_traces=1"),
    )
    assert first.code == second.code == 0, first.err + second.err
    assert len(model.requests) == 3
    bought = traces_of(first.json)
    assert len(bought) == 3
    for trace in bought.values():
        (call,) = calls_of(trace)
        prompts = [message["content"] for message in call.inputs["messages"]]
        assert prompts[-1] in model.prompts
        assert call.get_attribute("paid") is True
        assert trace.info.token_usage["input_tokens"] == call.get_attribute("input_tokens") > 0

    restored = traces_of(second.json)
    assert len(restored) == 3
    whole = [trace for trace in restored.values() if len(trace.data.spans) > 1]
    assert len(whole) == 1
    (call,) = calls_of(whole[0])
    name = whole[0].info.tags["question_id"]
    assert call.inputs == calls_of(bought[name])[0].inputs
    assert call.outputs == calls_of(bought[name])[0].outputs
    assert call.get_attribute("paid") is False
    assert not whole[0].info.token_usage
    client = MlflowClient(second.json["mlflow"]["tracking_uri"])
    run = client.get_run(second.json["mlflow"]["run_id"])
    assert run.data.tags["mlflow.runType"] == "genai_evaluate"
    assert "2 others without their stages" in run.data.tags["mlflow.note.content"]


def test_what_the_offline_backbone_said_is_shown_for_the_sample_alone_and_nothing_when_nobody_asks(
    demo: CommandLine,
) -> None:
    command = ("evaluate", "--pipeline", "few-shot", "--limit", "5", "--json")
    ran = demo.run(*command, *NO_FAILED, "--set", "tracking.sample_traces=2")
    assert ran.code == 0, ran.err
    traces = traces_of(ran.json)
    assert len(traces) == 2
    for trace in traces.values():
        (call,) = calls_of(trace)
        assert trace.info.request_preview.partition(" · ")[2] in call.inputs["messages"][-1]["content"]
        assert "SELECT" in call.outputs["choices"][0]["message"]["content"]
    none = demo.run(*command, "--set", "tracking.sample_traces=0", *NO_FAILED)
    assert traces_of(none.json) == {}


def test_questions_whose_verdict_changed_since_the_run_before_are_marked_and_shown_whole(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    command = ("evaluate", "--backbone", backbone_file, "--pipeline", "few-shot", "--limit", "24", "--json")
    first, second, third, *_ = GoldModel(demo.home).golds
    runs = []
    for night, wrong in (("monday", (first, second)), ("tuesday", (second, third))):
        model.answer = GoldModel(demo.home, wrong)
        settings = ("--set", f"backbone.epoch={night}", "--set", "tracking.sample_traces=0")
        ran = demo.run(*command, *settings)
        assert ran.code == 0, ran.err
        runs.append(ran.json)
    ids = {row.question.text: row.question.id for row in rows_of(demo, runs[1])}
    traces = traces_of(runs[1])
    marks = {name: trace.info.tags.get("flipped") for name, trace in traces.items()}
    changed = {name: mark for name, mark in marks.items() if mark}
    assert changed == {ids[first]: "fixed", ids[third]: "broken"}
    assert all(calls_of(traces[name]) for name in changed)
    assert set(traces) == {ids[first], ids[second], ids[third]}


def rows_of(demo: CommandLine, run: dict[str, Any]) -> Sequence[QuestionScore]:
    return Warehouse(demo.home / "warehouse.duckdb").read_run(run["run_id"]).rows


def test_two_backbones_by_two_pipelines_are_four_runs_in_a_view_of_their_own(
    demo: CommandLine, backbone_file: str
) -> None:
    ran = demo.run(
        "sweep", "--backbones", f"offline,{backbone_file}", "--pipelines", "few-shot,dac",
        "--limit", "1", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    cells = [cell["run"] for cell in ran.json["cells"]]
    client = MlflowClient(cells[0]["mlflow"]["tracking_uri"])
    runs = [client.get_run(cell["mlflow"]["run_id"]) for cell in cells]
    told = {(run.data.params["Backbone"], run.data.params["Pipeline"]) for run in runs}
    assert told == {(b, p) for b in ("offline", "local") for p in ("few-shot", "dac")}
    assert not any(name.endswith(".description") for run in runs for name in run.data.params)
    tables = [
        json.loads(Path(client.download_artifacts(run.info.run_id, "predictions.json")).read_text())
        for run in runs
    ]
    assert {tuple(table["columns"][:2]) for table in tables} == {("asked", "answer")}
    assert len({tuple(row[0] for row in table["data"]) for table in tables}) == 1

    page = ran.json["page"]
    key = page.rpartition("viewStateShareKey=")[2]
    assert key == f"sweep-{ran.json['sweep']}"
    experiment = client.get_experiment(runs[0].info.experiment_id)
    state = json.loads(json.loads(experiment.tags[f"mlflow.sharedViewState.{key}"])["state"])
    shown = client.search_runs([experiment.experiment_id], state["searchFilter"])
    assert {run.info.run_id for run in shown} == {run.info.run_id for run in runs}
    metrics = {name for run in runs for name in run.data.metrics}
    drawn = {card["metricKey"] for card in state["compareRunCharts"] if "metricKey" in card}
    assert {"ex", "ex_by_stage", "usage/cost_usd"} <= drawn <= metrics
    sections = {section["uuid"] for section in state["compareRunSections"]}
    assert {card["metricSectionId"] for card in state["compareRunCharts"]} <= sections
    columns = [name.split("`")[1] for name in state["selectedColumns"] if name.startswith("metrics")]
    assert set(columns) <= metrics

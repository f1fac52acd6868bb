"""Evaluations that do not come to their end: stopped, refused, or met by a mistake; what they leave and say."""

import json
import shutil
import signal
from pathlib import Path

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from flows.evaluate import session
from tasks.core.errors import CrosscheckError
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.support.command_line import (
    ROOT,
    CommandLine,
    end,
    finish,
    read_until,
    start_module,
    started_prefect_server,
    wait_until,
)
from tests.support.fake_openai import FakeOpenAI
from tests.support.kept_results import kept_results, replace_result
from tests.support.schedule import ask

pytestmark = pytest.mark.slow

SLOWLY = ("--set", "backbone.concurrency=2", "--set", "backbone.retries=0")
RSL = ("--pipeline", "rsl-sql")


def mlflow_runs(demo: CommandLine) -> list[Run]:
    client = MlflowClient(f"sqlite:///{demo.home / 'mlflow.db'}")
    return list(client.search_runs([each.experiment_id for each in client.search_experiments()]))


def alive_in_prefect(url: str) -> set[str]:
    """Ids of the flow runs that Prefect takes for running; tests before may have left some."""
    query = {"flow_runs": {"state": {"type": {"any_": ["RUNNING", "PENDING"]}}}}
    return {run["id"] for run in ask(f"{url}/flow_runs/filter", query)}


def copied_conf(demo: CommandLine, folder: Path) -> Path:
    """Give the command line a configuration of its own and return its prompts."""
    shutil.copytree(ROOT / "conf", folder / "conf")
    demo.environment = {**demo.environment, "CROSSCHECK_CONF": str(folder / "conf")}
    return folder / "conf" / "prompts"


def spoil(prompt: Path, right: str, wrong: str) -> None:
    text = prompt.read_text(encoding="utf-8")
    assert right in text
    prompt.write_text(text.replace(right, wrong), encoding="utf-8")


def test_an_interrupted_evaluation_leaves_its_scores_in_the_warehouse_and_nothing_running(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, prefect_server: str
) -> None:
    model.latency = 0.1
    before = alive_in_prefect(prefect_server)
    process = demo.start("evaluate", "--backbone", backbone_file, "--limit", "8", *SLOWLY, *RSL)
    wait_until(lambda: len(model.requests) > 30)
    assert len(alive_in_prefect(prefect_server) - before) == 1
    stopped = end(process, signal.SIGTERM)
    assert stopped.code == 130, stopped.err
    assert "Traceback" not in stopped.err
    warehouse = Warehouse(demo.home / "warehouse.duckdb")
    (header,) = warehouse.runs()
    assert header.status == "interrupted"
    scored = warehouse.read_run(header.run_id).rows
    assert 0 < len(scored) < 8
    assert all(row.outcome.sql for row in scored)
    (run,) = mlflow_runs(demo)
    assert run.info.status == "KILLED"
    assert "run the same command again to continue" in run.data.tags["mlflow.note.content"]
    assert alive_in_prefect(prefect_server) <= before
    assert list((demo.home / "runs").iterdir()) == []


def test_the_second_ctrl_c_does_not_wait_for_calls_in_flight(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    model.latency = 3600
    process = demo.start("evaluate", "--backbone", backbone_file, "--limit", "4", *SLOWLY, *RSL)
    wait_until(lambda: len(model.requests) > 1)
    process.send_signal(signal.SIGINT)
    said = read_until(process, "waiting for calls in flight")
    assert process.poll() is None, "the first one waits"
    stopped = end(process, signal.SIGINT)  # fails after a time that the calls take many times over
    assert stopped.code == 130, stopped.err
    assert "Traceback" not in said + stopped.err
    assert "0 of 4 questions are answered" in stopped.err
    given_up = f"{len(model.requests)} calls in flight were given up, and may have to be paid for again."
    assert given_up in " ".join(stopped.err.split()), stopped.err


def test_a_wrong_variable_in_a_prompt_is_found_before_anything_is_asked(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, tmp_path: Path
) -> None:
    prompts = copied_conf(demo, tmp_path)
    spoil(prompts / "self_correction.jinja", "section.asked(question)", "section.asked(qestion)")
    for arguments in (("evaluate", "--limit", "2"), ("benchmarks", "prepare")):
        ran = demo.run(*arguments, "--backbone", backbone_file)
        wrong = 'there is no variable "qestion". Did you mean "question"?'
        ran.assert_refused(wrong, str(prompts / "self_correction.jinja"))
    assert model.requests == []


def test_a_mistake_that_only_a_question_shows_ends_the_run_and_the_same_command_continues(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, tmp_path: Path
) -> None:
    prompts = copied_conf(demo, tmp_path)
    spoil(prompts / "augmented_sql.jinja", "section.asked(question)", "section.asked(question.txt)")
    arguments = ("evaluate", "--backbone", backbone_file, "--limit", "3", *SLOWLY, *RSL)
    demo.run(*arguments).assert_refused("augmented_sql.jinja", "has no attribute 'txt'", code=3)
    assert [run.info.status for run in mlflow_runs(demo)] == ["FAILED"]
    (header,) = Warehouse(demo.home / "warehouse.duckdb").runs()
    assert header.status == "failed"

    spoil(prompts / "augmented_sql.jinja", "question.txt", "question")
    mended = demo.run(*arguments, "--json")
    assert mended.code == 0, mended.err
    asked = [json.dumps(request.body, sort_keys=True) for request in model.requests]
    assert len(asked) == len(set(asked)) == mended.json["cost"]["calls"] + mended.json["cost"]["cached_calls"]


def test_a_bug_in_one_question_leaves_the_others_alone_and_its_traceback_in_the_log(
    demo: CommandLine,
) -> None:
    arguments = ("evaluate", "--limit", "3", "--pipeline", "zero-shot")
    assert demo.run(*arguments).code == 0
    home = Home(demo.home)
    key, result = next((key, found) for key, found in kept_results(home).items() if "preliminary_sql" in key)
    replace_result(home, key, json.dumps({**result, "value": {"sql": [1, 2]}}))

    ran = demo.run(*arguments, "--again")
    assert "has no answer (internal_error) and counts as wrong: ValidationError" in ran.out
    assert "crosscheck.log" in ran.out
    assert " of 3, rule bird," in ran.out
    assert "Traceback" not in ran.out + ran.err
    log = (demo.home / "crosscheck.log").read_text(encoding="utf-8")
    assert "Traceback" in log
    assert "ValidationError" in log


def test_a_prefect_server_that_is_not_there_is_found_before_anything_is_asked(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    demo.environment = {**demo.environment, "PREFECT_API_URL": "http://user:secret@127.0.0.1:9/api"}
    ran = demo.run("evaluate", "--backbone", backbone_file, "--limit", "2")
    ran.assert_refused("PREFECT_API_URL")
    assert "secret" not in ran.err
    assert model.requests == []


def test_a_prefect_server_that_dies_during_a_run_takes_away_neither_the_score_nor_minutes(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, tmp_path: Path
) -> None:
    model.latency = 0.3
    (home := tmp_path / "server").mkdir()
    with started_prefect_server(home) as (url, server):
        demo.environment = {**demo.environment, "PREFECT_API_URL": url}
        process = demo.start("evaluate", "--backbone", backbone_file, "--limit", "2", "--json", *RSL)
        wait_until(lambda: len(model.requests) > 0)
        server.kill()
        server.wait()
        ended = finish(
            process, timeout=120
        )  # Prefect's client alone would try its last calls for five minutes
    assert ended.code == 0, ended.err
    assert ended.json["answered"] == ended.json["total"] == 2
    assert ended.err.count("Prefect's server does not answer any more") == 1
    assert "Error logging" not in ended.err and "Traceback" not in ended.err


def test_a_run_that_is_logged_stays_complete_in_mlflow_where_prefect_cannot_show_its_end(
    demo: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(record: object) -> None:
        raise RuntimeError("no artifact")

    monkeypatch.setattr(session, "show_result", fail)
    ran = demo.run("evaluate", "--limit", "1", "--pipeline", "zero-shot")
    assert ran.code == 0 and "it does not show the end of this run" in ran.err, ran.err
    (run,) = mlflow_runs(demo)
    assert (run.info.status, run.data.tags["status"]) == ("FINISHED", "complete")


def test_the_next_command_ends_a_run_whose_end_a_store_did_not_take(
    demo: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk, or while another program has the warehouse open."""

    async def fail(*arguments: object, **more: object) -> None:
        raise CrosscheckError("no space")

    def refuse(*arguments: object) -> None:
        raise CrosscheckError("no space")

    with monkeypatch.context() as full:
        full.setattr(session.Session, "finish", fail)
        full.setattr(Warehouse, "abandon", refuse)
        assert demo.run("evaluate", "--limit", "1", "--pipeline", "zero-shot").code != 0
    assert demo.run("evaluate", "--limit", "1", "--pipeline", "zero-shot").code == 0
    runs = Warehouse(demo.home / "warehouse.duckdb").runs()
    assert [run.status for run in runs] == ["complete", "killed"]
    assert not list((demo.home / "runs").glob("*.json"))


def test_a_run_that_is_killed_between_mlflow_and_the_warehouse_is_killed_in_both(demo: CommandLine) -> None:
    script = (
        "import os, signal, sys; from flows.cli.program import run\n"
        "from tasks.results.warehouse.runs import Warehouse\n"
        "Warehouse.finish = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)\n"
        "run(sys.argv[1:])"
    )
    evaluate = ("evaluate", "--limit", "1", "--pipeline", "zero-shot")
    killed = finish(start_module("tests.support.script", (script, *evaluate), demo.all_of_environment))
    assert killed.code == -signal.SIGKILL
    assert [run.info.status for run in mlflow_runs(demo)] == ["FINISHED"]
    assert demo.run(*evaluate).code == 0
    assert sorted(run.info.status for run in mlflow_runs(demo)) == ["FINISHED", "KILLED"]
    runs = Warehouse(demo.home / "warehouse.duckdb").runs()
    assert [run.status for run in runs] == ["complete", "killed"]


def test_an_endpoint_that_is_not_there_is_one_message_and_not_a_score_of_nothing(
    demo: CommandLine, backbone_file: str
) -> None:
    nowhere = ("--set", "backbone.base_url=http://127.0.0.1:9/v1", "--set", "backbone.timeout_s=2", *SLOWLY)
    words = ("--backbone", backbone_file, "--limit", "12", "--pipeline", "few-shot")
    demo.run("evaluate", *words, *nowhere).assert_refused("127.0.0.1:9", code=3)
    assert [run.info.status for run in mlflow_runs(demo)] == ["FAILED"]

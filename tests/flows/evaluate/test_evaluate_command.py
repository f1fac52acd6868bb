"""`crosscheck evaluate` as users run it: real processes, a real Prefect server, a real MLflow store, a real API."""

import json
import os
import shutil
import webbrowser
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tasks.results.run_record import RunRecord
from tests.support import in_process
from tests.support.command_line import CommandLine, Ran, wait_until
from tests.support.demo import write_backbone
from tests.support.fake_openai import FakeOpenAI, quota_exhausted
from tests.support.schedule import ask


def bodies(server: FakeOpenAI) -> Counter[str]:
    return Counter(json.dumps(request.body, sort_keys=True) for request in server.requests)


def artifact_of(ran: Ran, api: str) -> Any:
    """The result on the flow run's page in Prefect."""
    found = ask(f"{api}/artifacts/filter", {"artifacts": {"key": {"any_": ["evaluation"]}}})
    (artifact,) = [each for each in found if ran.json["run_id"] in each["description"]]
    return artifact


def assert_no_traceback(ran: Ran) -> None:
    assert "Traceback" not in ran.out + ran.err


@dataclass(frozen=True)
class Opened:
    """An evaluation with `--open`, its working folder, and the file that names the page in place of a browser."""

    ran: Ran
    home: Path
    file: Path


@pytest.fixture(scope="module")
def evaluated(built_demo: Path, prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """Evaluate six questions, with a program in place of the browser."""
    folder = tmp_path_factory.mktemp("evaluated")
    file, program = folder / "opened", folder / "browser"
    program.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {file}\n', encoding="utf-8")
    program.chmod(0o755)
    line = in_process.served(Path(shutil.copytree(built_demo, folder / "home")), prefect_server)
    line.environment = {**line.environment, "BROWSER": str(program)}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(webbrowser, "_tryorder", None)  # so that it reads BROWSER again
        ran = line.run("evaluate", "--pipeline", "rsl-sql", "--limit", "6", "--json", "--open")
    return Opened(ran, line.home, file)


@pytest.mark.slow
def test_json_has_exactly_the_promised_keys_first_and_everything_else_is_on_standard_error(
    evaluated: Opened,
) -> None:
    ran = evaluated.ran
    assert ran.code == 0, ran.err
    page = evaluated.home / "reports" / f"{ran.json['run_id']}.html"
    assert f"The page is {page}." in ran.err and "augmented_sql" in page.read_text(encoding="utf-8")
    wait_until(
        lambda: evaluated.file.exists() and evaluated.file.read_text(encoding="utf-8") == page.as_uri()
    )
    result = ran.json
    assert RunRecord.model_validate(result).run_id == result["run_id"]
    assert result["questions"] == result["total"] == 6
    assert [stage["name"] for stage in result["stages"]] == [
        "1_preliminary_sql", "2_augmented_sql", "3_binary_selection", "4_self_correction",
    ]  # fmt: skip
    assert result["prefect"]["recorded"] == result["prefect"]["task_runs"] >= 9
    assert (result["cost"]["cost_usd"], result["cost"]["input_tokens"]) == (0.0, 0)  # rules cost nothing
    assert result["forecast"] is None
    assert "execution accuracy" in ran.err
    assert_no_traceback(ran)


@pytest.mark.slow
def test_a_server_that_fails_on_one_question_fails_that_question_and_a_rerun_mends_it(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI, prefect_server: str
) -> None:
    ordinary = model.answer
    questions = json.loads((demo.home / "benchmarks/demo/dev.json").read_text(encoding="utf-8"))
    poison = questions[2]["question"]

    def fail(body: dict) -> str:
        if poison in str(body["messages"][-1]["content"]).rpartition("### Question")[2]:
            raise ConnectionError
        return ordinary(body)

    model.answer = fail
    few = ("--limit", "4", "--json", "--set", "backbone.retries=0")
    evaluate = ("evaluate", "--backbone", backbone_file, *few)
    broken = demo.run(*evaluate)
    assert (broken.code, broken.json["answered"], broken.json["total"]) == (3, 3, 4), broken.err
    assert_no_traceback(broken)
    before = bodies(model)

    model.answer = ordinary
    page = artifact_of(broken, prefect_server)
    assert f"crosscheck rerun {broken.json['run_id']}" in page["data"]
    assert "1 question without an answer" in page["description"]
    assert "| 1\\_preliminary\\_sql |" in page["data"]
    mended = demo.run(*evaluate)
    assert (mended.code, mended.json["answered"]) == (0, 4)
    assert "crosscheck rerun" not in artifact_of(mended, prefect_server)["data"]
    shown = demo.run(*evaluate)
    assert shown.json == mended.json and "Nothing has changed since run" in shown.err
    again = [
        body for body, count in (bodies(model) - before).items() if body in before and poison not in body
    ]
    assert again == []


@pytest.mark.slow
def test_an_exhausted_quota_stops_the_run_keeps_what_was_answered_and_says_so(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    ordinary = model.answer

    def run_dry(body: dict) -> str:
        if len(model.requests) > 80:
            model.always(quota_exhausted())
        return ordinary(body)

    model.answer = run_dry
    ran = demo.run("evaluate", "--backbone", backbone_file, "--limit", "20", "--json")
    assert ran.code == 3, ran.err
    assert 0 < ran.json["answered"] < 20
    assert ran.json["total"] == 20
    assert "quota" in ran.err.lower()
    assert len(model.requests) < 120
    assert_no_traceback(ran)


@pytest.mark.slow
def test_sixty_four_calls_are_in_flight_when_the_backbone_allows_it(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    model.latency = 2.0  # so that all are in flight together on a busy machine too
    ran = demo.run(
        "evaluate", "--backbone", backbone_file, "--limit", "70", "--pipeline", "few-shot",
        "--set", "backbone.concurrency=64", "--json",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert model.most_in_flight == 64
    assert ran.json["cost"]["calls"] == 70


@pytest.mark.slow
def test_the_run_in_mlflow_has_its_metrics_tables_figures_and_no_secret(evaluated: Opened) -> None:
    ran = evaluated.ran.json
    from mlflow import MlflowClient

    client = MlflowClient(ran["mlflow"]["tracking_uri"])
    run = client.get_run(ran["mlflow"]["run_id"])
    assert run.data.metrics["ex"] == pytest.approx(ran["ex"], abs=1e-6)
    assert run.data.metrics["stage_ex/1_preliminary_sql"] == pytest.approx(ran["stages"][0]["ex"], abs=1e-6)
    assert run.info.run_name == "offline | rsl-sql"
    assert run.inputs.dataset_inputs[0].dataset.name == "demo"
    files = {item.path for item in client.list_artifacts(run.info.run_id)}
    assert {"predictions.json", "report.html"} <= files


def test_an_unreachable_mlflow_is_found_before_anything_is_asked(
    run_here: Callable[..., Ran], backbone_file: str, model: FakeOpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    ran = run_here("evaluate", "--backbone", backbone_file, "--limit", "3")
    ran.assert_refused("MLFLOW_TRACKING_URI")
    assert model.requests == []


CACHED = {"prices": {"input": 1, "cached_input": 0.1, "output": 4, "as_of": "2026-11-01"}}


@pytest.mark.slow
@pytest.mark.parametrize("prices", [{}, CACHED])
def test_one_question_of_each_database_runs_before_the_others_where_its_prompts_cost_less(
    crosscheck: CommandLine, fake_openai: FakeOpenAI, tmp_path: Path, prices: dict[str, object]
) -> None:
    fake_openai.answer = lambda body: json.dumps({"sql": "SELECT 1"})
    fake_openai.latency = 1.0
    file = write_backbone(tmp_path / "mine.yaml", fake_openai, concurrency=32, **prices)
    chosen = ("--pipeline", "zero-shot", "--questions", "0,16-19", "--json")
    ran = crosscheck.run("evaluate", "--backbone", file, *chosen)
    assert ran.code == 0, ran.err
    first, second, *others = sorted(request.at for request in fake_openai.requests)
    assert len(others) == 3 and second > first + 0.4, "the others wait half a second for the first answer"
    assert sum(at < second + 0.9 for at in others) == (0 if prices else 3)


@pytest.mark.slow
def test_a_run_says_that_the_working_folder_is_large_or_why_its_size_is_unknown(
    demo: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ("evaluate", "--limit", "1", "--pipeline", "zero-shot")
    large = demo.run(*few, "--set", "tracking.folder_limit_gb=0.000001")
    assert large.code == 0
    assert 'more than 1e-06 GB (tracking.folder_limit_gb): "crosscheck clean --dry-run" shows' in large.out
    deep = demo.home / "another program's"
    deep.mkdir()
    monkeypatch.chdir(deep)
    for _ in range(20):  # a path that is too long for the system cannot be looked into, even by root
        Path("d" * 250).mkdir()
        os.chdir("d" * 250)
    monkeypatch.chdir(demo.home)
    unknown = demo.run(*few)
    assert unknown.code == 0, unknown.err
    assert "The size of the working folder is unknown: " in unknown.out

"""`crosscheck sweep` as users run it: the whole matrix against one server, within the budget, ranked honestly."""

from collections.abc import Callable
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.support.command_line import CommandLine, Ran
from tests.support.demo import demo_questions
from tests.support.fake_openai import FakeOpenAI, unauthorized
from tests.support.in_process import run


@pytest.mark.slow
def test_a_sweep_asks_within_its_budget_and_the_same_command_completes_it_with_an_honest_table(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    matrix = (
        "sweep", "--backbones", f"offline,{backbone_file}", "--pipelines", "few-shot",
        "--grid", "pipeline.demonstrations.k=0,2", "--limit", "5", "--set", "backbone.concurrency=1", "--json",
    )  # fmt: skip

    dry = demo.run(*matrix, "--dry-run")
    assert dry.code == 0, dry.err
    assert model.requests == []
    assert not (demo.home / "warehouse.duckdb").exists()
    estimates = [cell["estimate"] for cell in dry.json["cells"]]
    assert [one["calls"] for one in estimates] == [5, 5, 5, 5]
    assert estimates[0]["cost_usd"] == 0
    assert dry.json["estimated_usd"] == pytest.approx(estimates[2]["cost_usd"] + estimates[3]["cost_usd"])
    price = (estimates[2]["input_tokens"] * 1.0 + estimates[2]["output_tokens"] * 2.0) / 1e6
    assert estimates[2]["cost_usd"] == pytest.approx(price)
    assert estimates[3]["input_tokens"] > estimates[2]["input_tokens"]
    assert "estimate" in dry.err.lower()

    budget = str(estimates[2]["cost_usd"] * 0.5)
    short = demo.run(*matrix, "--budget", budget)
    assert short.code == 3, short.err
    assert "Traceback" not in short.err
    cells = short.json["cells"]
    assert [cell["set"] for cell in cells] == [
        ["pipeline.demonstrations.k=0"],
        ["pipeline.demonstrations.k=2"],
    ] * 2
    assert [bool(cell["problem"]) for cell in cells] == [False, False, True, True]
    assert cells[3]["run"] is None
    assert 0 < cells[2]["run"]["answered"] < cells[2]["run"]["total"] == 5
    assert short.json["stopped_by_budget"] is True
    paid = len(model.requests)
    assert paid == cells[2]["run"]["cost"]["calls"] < 5
    assert short.json["spent_usd"] == pytest.approx(cells[2]["run"]["cost"]["cost_usd"])
    assert float(budget) <= short.json["spent_usd"] < 2 * float(budget)
    assert "budget" in short.err

    whole = demo.run(*matrix)
    assert whole.code == 0, whole.err
    paid_for = len(model.requests)
    three = ("--pipeline", "few-shot", "--set", "pipeline.demonstrations.k=3")
    fifth = str(demo_questions(demo.home)[4]["question_id"])
    assert demo.run("evaluate", "--backbone", backbone_file, *three, "--questions", fifth).code == 0
    for file in demo.home.glob("stages.sqlite*"):
        file.unlink()  # the replies stay in the cache
    grid = ("--grid", "pipeline.demonstrations.k=3,0")
    spent = demo.run(
        "sweep", "--backbones", backbone_file, *matrix[3:5], *grid, *matrix[7:], "--budget", "1e-9"
    )
    cells = [cell["run"] for cell in spent.json["cells"]]
    assert [cell["answered"] for cell in cells] == [2, 5] and len(model.requests) == paid_for + 2
    del model.requests[paid_for:]
    cells = whole.json["cells"]
    assert len(model.requests) == 10
    assert [cell["run"]["cost"]["calls"] for cell in cells[2:]] == [5 - paid, 5]
    # The fake server answers as the offline backbone: no cell can be better than its twin, whatever the table says.
    assert cells[0]["run"]["ex"] == cells[2]["run"]["ex"]
    assert all("tied" in cell["against_best"] for cell in cells)
    first = cells[0]["run"]
    assert first["low"] <= first["ex"] <= first["high"]
    assert "statistically tied" in whole.err
    assert "leaked" not in whole.err  # what DuckDB prints at exit if its objects are still there
    client = MlflowClient(cells[0]["run"]["mlflow"]["tracking_uri"])
    experiments = [one.experiment_id for one in client.search_experiments()]
    runs = client.search_runs(experiments, f"tags.sweep = '{whole.json['sweep']}'")
    assert {run.info.run_id for run in runs} == {cell["run"]["mlflow"]["run_id"] for cell in cells}
    assert {run.data.tags["sweep_set"] for run in runs} == {cell["set"][0] for cell in cells}
    page = Path(whole.json["file"])
    addresses = [f"../mlartifacts/{run.info.run_id}/artifacts/report.html" for run in runs]
    assert all(f'href="{address}"' in page.read_text("utf-8") for address in addresses)
    assert all((page.parent / address).exists() for address in addresses)


@pytest.mark.slow
def test_a_backbone_that_refuses_its_key_does_not_keep_the_others_from_being_evaluated(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    model.always(unauthorized())
    matrix = ("--backbones", f"{backbone_file},offline", "--pipelines", "zero-shot", "--limit", "2")
    ran = demo.run("sweep", *matrix, "--json")
    assert ran.code == 3, ran.err
    refused, answered = ran.json["cells"]
    assert refused["run"] is None and "key" in refused["problem"]
    assert answered["run"]["answered"] == 2
    assert "not evaluated" in ran.err and "Traceback" not in ran.err


def test_an_estimate_needs_no_key(run_here: Callable[..., Ran]) -> None:
    matrix = ("--backbones", "openai", "--pipelines", "few-shot", "--limit", "2", "--dry-run", "--json")
    second = ("--set", "pipeline.candidates.n=2", "--set", "pipeline.candidates.backbones=[openai, deepseek]")
    ran = run_here("sweep", *matrix, *second)
    assert ran.code == 0, ran.err
    assert ran.json["cells"][0]["estimate"]["calls"] == 4


@pytest.mark.parametrize(("arguments", "said"), [
    (("--backbones", "offline,ofline"), 'Did you mean "offline"?'),
    (("--backbones", ","), "at least one"),
    (("--backbones", "offline,offline"), "twice"),
    (("--grid", "pipeline.demonstrations.kk=1,2"), 'Did you mean "k"?'),
    (("--grid", "pipeline.demonstrations.k"), "key=value,value"),
    (("--grid", "pipeline.demonstrations.k=1", "--grid", "pipeline.demonstrations.k=2"), "this key occurs twice"),
    (("--grid", "benchmark.rule=bird,strict"), "the same for a whole sweep"),
    (("--backbones", "vllm", "--budget", "1"), "prices"),
    (("--backbones", "openai"), "OPENAI_API_KEY"),
    (("--budget", "0"), "budget"),
])  # fmt: skip
def test_a_users_error_is_found_before_anything_is_asked(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path))
    run("sweep", *arguments).assert_refused(said)

"""The money of a run, against what the server itself has counted: paid, and from scratch."""

import json
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.support.command_line import CommandLine
from tests.support.demo import write_backbone
from tests.support.fake_openai import Behaviour, FakeOpenAI

pytestmark = pytest.mark.slow


FOUR = ("--pipeline", "few-shot", "--limit", "4")
USAGE = {"prompt_tokens": 1000, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 200}}


def test_a_run_from_the_cache_shows_what_it_costs_from_scratch_and_mlflow_has_the_same_money(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    model.always(Behaviour(usage=USAGE))
    options = ("--backbone", backbone_file, "--set", "backbone.prices.cached_input=0.1")
    first = demo.run("evaluate", *FOUR, *options, "--json").json
    # 800 ordinary tokens at 1, 200 read at 0.1, 10 out at 2, per million
    paid = len(model.requests) * (800 * 1.0 + 200 * 0.1 + 10 * 2.0) / 1e6
    assert len(model.requests) == 4
    assert first["cost"]["cost_usd"] == pytest.approx(paid)
    assert first["cost"]["from_scratch_usd"] == pytest.approx(paid)

    tier = ("--set", "backbone.extra_body={service_tier: flex}")
    again = demo.run("evaluate", *FOUR, *options, *tier, "--json").json
    assert len(model.requests) == 4, "another tier buys nothing again"
    assert (again["cost"]["cost_usd"], again["cost"]["calls"]) == (0, 0)
    assert again["cost"]["from_scratch_usd"] == pytest.approx(paid)

    board = json.loads(demo.run("leaderboard", "--json").out)["boards"][0]
    assert [row["run"]["cost"]["from_scratch_usd"] for row in board["ranked"]] == [pytest.approx(paid)] * 2
    assert "from scratch" in demo.run("leaderboard").out
    assert f"${paid:,.4f} from scratch" in demo.run("show", "latest").out

    client = MlflowClient(f"sqlite:///{demo.home / 'mlflow.db'}")
    traces = client.search_traces(
        locations=[each.experiment_id for each in client.search_experiments()], max_results=100
    )
    spans = [span for trace in traces for span in trace.data.spans if span.span_type == "CHAT_MODEL"]
    costs = [span.llm_cost["total_cost"] for span in spans if span.llm_cost]
    assert costs and costs == [pytest.approx(paid / 4)] * len(costs)
    reads = [span.attributes["mlflow.chat.tokenUsage"] for span in spans if span.llm_cost]
    assert {each["cache_read_input_tokens"] for each in reads} == {200}


def test_the_cost_that_a_gateway_reports_is_used_and_said_to_be_its_own(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    model.always(Behaviour(usage=USAGE | {"cost": 0.5}))
    ran = demo.run("evaluate", *FOUR, "--backbone", backbone_file)
    assert "cost of 4 of 4 calls as the endpoint reported it" in ran.out
    assert "$2.0000" in ran.out


def test_the_forecast_stands_beside_the_cost_that_the_server_charged(
    demo: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    ran = demo.run(
        "evaluate", "--pipeline", "rsl-sql", "--limit", "8", "--backbone", backbone_file, "--details"
    )
    assert ran.code == 0, ran.err
    record = demo.run("show", "latest", "--json").json
    forecast = record["forecast"]
    # The model answers as the offline one does, which the sample of 8 questions is answered by: the calls are equal.
    assert forecast["calls"] == record["cost"]["calls"] == len(model.requests)
    assert "forecast: $" in ran.out and "times the forecast" in ran.out
    assert f"Forecast without cached replies: {forecast['calls']} calls" in ran.err


def test_mlflow_invents_no_cost_where_the_price_is_unknown(
    demo: CommandLine, model: FakeOpenAI, tmp_path: Path
) -> None:
    """MLflow has a list of prices of its own, in which this model is."""
    backbone = write_backbone(tmp_path / "gpt.yaml", model, model="gpt-4o", prices=None)
    ran = demo.run("evaluate", "--pipeline", "zero-shot", "--limit", "2", "--backbone", backbone)
    assert "paid unknown (2 calls paid" in ran.out
    client = MlflowClient(f"sqlite:///{demo.home / 'mlflow.db'}")
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    traces = client.search_traces(locations=experiments, max_results=2, order_by=["timestamp_ms DESC"])
    for trace in traces:
        assert "mlflow.trace.cost" not in trace.info.trace_metadata
        assert json.loads(trace.info.trace_metadata["mlflow.trace.tokenUsage"])["output_tokens"] > 0
        assert [span.llm_cost for span in trace.data.spans] == [None] * len(trace.data.spans)

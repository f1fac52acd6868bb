"""The JSON object of the command line, the metrics, and the description in MLflow."""

import itertools
import json
from dataclasses import replace

from tasks.scoring.cost import Cost
from tasks.scoring.score import Score
from tasks.tracking.mlflow.metrics import measures
from tasks.tracking.summary import TaskRunCounts, Tracked, markdown, summary
from tests.tasks.tracking.samples import STAGES, make_report, make_run, report_of

PROMISED = [
    "run_id", "benchmark", "backbone", "pipeline", "questions", "answered", "ex", "rules", "stages", "linking",
    "calls", "cached_calls", "tokens", "cost_usd", "cost_by_endpoint", "from_scratch_usd", "seconds",
    "prefect", "mlflow",
]  # fmt: skip


def test_the_summary_starts_with_the_promised_keys_and_is_plain_json() -> None:
    found = summary(
        make_run(),
        make_report(),
        seconds=1.23456,
        prefect=TaskRunCounts(9, 8),
        mlflow=Tracked("sqlite:///x", "abc", "7"),
    )
    assert list(found)[: len(PROMISED)] == PROMISED
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert list(found["ex"]) == ["rule", "correct", "total", "value"]
    assert found["ex"]["value"] == found["ex"]["correct"] / found["ex"]["total"]
    assert found["prefect"] == {"task_runs": 9, "recorded": 8}
    assert found["mlflow"] == {"tracking_uri": "sqlite:///x", "experiment_id": "7", "run_id": "abc"}
    assert found["seconds"] == 1.235


def test_stages_say_what_they_fixed_and_broke() -> None:
    found = summary(make_run(), make_report(200))["stages"]
    assert [stage["name"] for stage in found] == list(STAGES)
    assert (found[0]["fixed"], found[0]["broken"]) == (None, None)
    for before, stage in itertools.pairwise(found):
        assert stage["correct"] - before["correct"] == stage["fixed"] - stage["broken"]


def test_what_is_unknown_is_null_and_never_zero() -> None:
    report = replace(make_report(), cost=Cost(calls=3), linking=())
    found = summary(make_run(), report)
    assert found["tokens"] == {"input": None, "output": None}
    assert found["cost_usd"] is None
    assert found["linking"] == dict.fromkeys(("nsr", "strict_recall", "avg_tables", "avg_columns"))
    assert found["mlflow"] == {"tracking_uri": None, "experiment_id": None, "run_id": None}
    assert found["prefect"] == {"task_runs": None, "recorded": None}


def test_a_run_with_nothing_to_score_has_no_share() -> None:
    found = summary(make_run(), report_of(()))
    assert found["ex"] == {"rule": "bird", "correct": 0, "total": 0, "value": None}
    assert not [
        measure for measure in measures(report_of(())) if measure.name.startswith(("ex_by", "stage_ex"))
    ]
    assert "none to score" in markdown(make_run(), report_of(()))


def test_ex_is_the_first_metric_and_the_first_by_name() -> None:
    names = [measure.name for measure in measures(make_report(), 12.5)]
    assert names[0] == "ex"
    assert min(names) == "ex"


def test_stages_are_metrics_of_their_own_and_a_stepped_series() -> None:
    report = make_report(200)
    found = measures(report)
    series = [(measure.step, measure.value) for measure in found if measure.name == "ex_by_stage"]
    assert [step for step, _ in series] == [1, 2, 3, 4]
    single = {measure.name: measure.value for measure in found}
    assert [value for _, value in series] == [single[f"stage_ex/{name}"] for name in STAGES]
    assert single["stage_fixed/2_augmented_sql"] == report.stages[1].fixed
    assert "stage_fixed/1_preliminary_sql" not in single


def test_unknown_money_is_no_metric_and_a_price_of_nothing_is_one() -> None:
    report = make_report()
    assert "usage/cost_usd" not in {measure.name for measure in measures(report)}
    free = replace(report, cost=replace(report.cost, cost_usd=0.0))
    assert {measure.name: measure.value for measure in measures(free)}["usage/cost_usd"] == 0.0


def test_the_description_states_rule_numerator_and_denominator() -> None:
    report = replace(
        make_report(200), scores={"bird": Score(128, 200, rule="bird")}, missing_databases={"wta_1": 62}
    )
    text = markdown(make_run(), report, 12.5)
    assert text.startswith("**EX 64.00 % (128/200)** under rule `bird`")
    assert "wta_1 (62)" in text
    assert "paid unknown" in text
    assert "| 2\\_augmented\\_sql |" in text

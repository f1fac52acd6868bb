"""The record of a run, its metrics, its description in MLflow and its table of predictions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tasks.core.outcome import Failure
from tasks.database.schema import Column, Schema, Table
from tasks.documents.markdown import markdown
from tasks.pages.first_screen import run_document
from tasks.results.build_record import record_of
from tasks.results.mlflow.package import measures
from tasks.results.predictions_table import table
from tasks.results.run_record import RunRecord, TaskRunCounts, Tracked, json_of, read_record
from tasks.results.warehouse.runs import Warehouse
from tasks.results.warehouse.views import query
from tasks.scoring.cost import Cost
from tasks.scoring.execution.run_times import Measured, Timings
from tasks.scoring.metric import ScoredRun, measure
from tasks.scoring.scores import QuestionScore, Score, is_right
from tasks.scoring.variants import FINDERS, Variant
from tests.tasks.results.samples import STAGES, make_record, make_rows, make_run, record_with
from tests.tasks.scoring.samples import score

SCHEMA = Path(__file__).parents[3] / "docs/run-record.schema.json"


def test_the_published_schema_is_that_of_the_record() -> None:
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == RunRecord.model_json_schema(mode="serialization")


def test_the_record_is_plain_json_and_reads_back_as_it_was() -> None:
    mlflow = Tracked("sqlite:///x", "abc", "7")
    record = record_of(
        make_run(),
        make_rows(),
        seconds=1.235,
        prefect=TaskRunCounts(9, 8),
        mlflow=mlflow,
        mlflow_run_id="abc",
    )
    found = json.loads(json.dumps(json_of(record), allow_nan=False))
    assert json_of(RunRecord.model_validate(found)) == found
    assert (found["ex"], found["schema_version"]) == (found["correct"] / found["total"], 1)
    assert found["low"] < found["ex"] < found["high"]
    assert found["prefect"] == {"task_runs": 9, "recorded": 8}
    assert (found["mlflow"]["experiment_id"], found["mlflow_run_id"]) == ("7", "abc")
    assert next(iter(found["scores"])) == found["rule"] == "bird"
    run = make_run(tags={"note": "a\ud800b"})
    record = record_of(run, make_rows(3))
    assert record.tags == {"note": "a\ufffdb"}
    assert json_of(read_record(record.model_dump_json())) == json_of(record)


@pytest.mark.parametrize(("messages", "fatal", "shown"), [
    (["down", "down"], "", {"backbone_error": "down"}),
    (["refused", "down", "down"], "", {"backbone_error": "most often down"}),
    (["no credit", "down", "down"], "no credit", {"backbone_error": "most often down"}),
    (["no credit", "no credit", "down"], "no credit", {}),
])  # fmt: skip
def test_a_message_of_some_failures_is_not_told_of_all(
    messages: list[str], fatal: str, shown: dict[str, str]
) -> None:
    failures = [Failure("backbone_error", "sql", message, retryable=True) for message in messages]
    rows = [score(str(n), sql=None, failure=failure) for n, failure in enumerate(failures)]
    assert record_of(make_run(), rows, fatal=fatal).failure_messages == shown


def test_what_is_unknown_is_null_and_never_zero() -> None:
    found = json_of(make_record(cost=Cost(calls=3), links=()))
    assert (found["cost"]["calls"], found["cost"]["input_tokens"], found["cost"]["cost_usd"]) == (
        3,
        None,
        None,
    )
    assert (found["links"], found["seconds"]) == ([], None)
    assert found["mlflow"]["tracking_uri"] is found["mlflow_run_id"] is None
    assert found["prefect"] == {"task_runs": None, "recorded": None}
    begun = json_of(make_run())
    assert all(
        begun[name] is None for name in ("ex", "correct", "total", "low", "high", "questions", "finished")
    )


def test_a_run_with_nothing_to_score_has_no_share() -> None:
    record = record_of(make_run(), ())
    assert (record.ex, record.correct, record.total, record.low) == (None, 0, 0, None)
    assert not [
        measure for measure in measures(record_with(())) if measure.name.startswith(("ex_by", "stage_ex"))
    ]
    assert "execution accuracy **–** (0 of 0" in markdown(run_document(record))


def test_a_variant_is_in_every_display_that_is_made_from_the_record(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def only_first(benchmark: Mapping[str, Any], rows: Sequence[QuestionScore]) -> Iterator[Variant]:
        def judge(row: QuestionScore, rule: str) -> bool | None:
            return is_right(row.final, rule) if row is rows[0] else None

        yield Variant("only_first", "Of the first question", judge)

    monkeypatch.setattr("tasks.scoring.variants.FINDERS", [*FINDERS, only_first])
    record = record_with(make_rows(20))
    assert record.scores["only_first"].total == 1
    text = markdown(run_document(record))
    assert "Of the first question: " in text and "| Of the first question " in text
    assert "ex_only_first" in {measure.name for measure in measures(record)}
    assert "ex_only_first" in json.loads(table(record))["columns"]
    warehouse = Warehouse(tmp_path / "warehouse.duckdb")
    warehouse.finish(record)
    (row,) = query(tmp_path / "warehouse.duckdb", "SELECT scores['only_first'].ex FROM runs").rows
    assert row == (record.scores["only_first"].ex,)
    sql = "SELECT question_id FROM questions WHERE correct_by_variant['only_first'] IS NOT NULL"
    assert query(tmp_path / "warehouse.duckdb", sql).rows == ((record.rows[0].question.id,),)


def test_stages_are_metrics_of_their_own_and_a_stepped_series() -> None:
    found = measures(make_record(200))
    series = [(measure.step, measure.value) for measure in found if measure.name == "ex_by_stage"]
    assert [step for step, _ in series] == [1, 2, 3, 4]
    single = {measure.name: measure.value for measure in found}
    assert [value for _, value in series] == [single[f"stage_ex/{name}"] for name in STAGES]


def test_unknown_money_is_no_metric_and_a_price_of_nothing_is_one() -> None:
    record = make_record()
    assert "usage/cost_usd" not in {measure.name for measure in measures(record)}
    for usd in (0.0, 1234.567891):
        priced = record.model_copy(update={"cost": replace(record.cost, cost_usd=usd)})
        assert {measure.name: measure.value for measure in measures(priced)}["usage/cost_usd"] == usd


def test_the_description_states_rule_counts_and_causes_once() -> None:
    scores = {"bird": Score(128, 200, rule="bird")}
    record = make_record(200, scores=scores, missing_databases={"wta_1": 62}, seconds=12.5)
    text = markdown(run_document(record))
    assert "execution accuracy **64.00 %** (128 of 200, rule bird" in text
    assert "wta" in text and "(62)" in text
    assert "paid unknown" in text
    assert "| 2\\_augmented\\_sql |" in text
    text = markdown(run_document(detailed()))
    assert text.count("Causes of wrong answers") == 1
    assert (
        "| wrong\\_column | 11 |" in text
        and "14 of 40 questions are wrong; one may have several causes" in text
    )


def detailed(**options: Any) -> RunRecord:
    """The record of 40 questions with every metric."""
    hero = (Table("hero", (Column("power"), Column("name"))),)
    schemas = {name: Schema(name, hero, dialect="sqlite") for name in ("superhero", "card games")}
    rows = make_rows(40)
    return make_record(40, measurements=measure(ScoredRun("bird", rows, schemas, **options)))


def test_the_record_has_what_the_metrics_found() -> None:
    right = [row.question.id for row in make_rows(40) if row.final.correct["bird"]]
    efficiency = Measured(
        {name: Timings(((1.0,), (4.0,)), ((1.0,), (4.0,))) for name in right}
    )  # half as long in the second trial
    measured = {"efficiency": efficiency, "soft_f1": {}}
    found = detailed(measured=measured, exact_match=True).metrics
    share = 100 * len(right) / 40
    assert found["efficiency"]["ves"] == {"mean": 1.5 * share, "low": share, "high": 2 * share}
    assert found["selection"]["candidates"] == ["1_preliminary_sql", "2_augmented_sql"]


def test_what_was_not_asked_for_is_null_in_json_and_no_metric() -> None:
    record = detailed()
    found = record.metrics
    for name in ("efficiency", "soft_f1", "exact_match"):
        assert found[name] is None
    names = {measure.name for measure in measures(record)}
    assert not {name for name in names if name.startswith(("ves/", "soft_f1", "exact_match"))}


def test_mlflow_has_about_forty_metrics_and_the_record_the_rest() -> None:
    record = detailed()
    found = {measure.name: measure.value for measure in measures(record)}
    assert len(found) <= 40
    assert not any(name.startswith("ex_errors/") for name in found)
    assert sum(record.metrics["errors"].values()) > 0
    assert found["questions/rules_disagree"] == len(record.measurements["disagreements"].data) > 0
    assert found["selection/oracle"] > 0
    assert next(iter(found)) == min(found) == "ex", "MLflow sorts metrics by name, and this one comes first"


def test_the_table_of_predictions_says_why_each_answer_is_wrong() -> None:
    record = detailed(exact_match=True, measured={"soft_f1": {"0": 0.25}})
    content = json.loads(table(record))
    names = content["columns"]
    plain = json.loads(table(make_record(40)))["columns"]
    measured = {name for name, measurement in record.measurements.items() if measurement.by_question}
    assert measured >= {"errors", "exact_match", "exact_match_official", "soft_f1"}
    assert [name for name in names if name not in measured] == plain
    assert names.index("error") < names.index("errors") < names.index("gold_sql")
    rows = [dict(zip(names, row, strict=True)) for row in content["data"]]
    assert all(bool(row["errors"]) != row["correct"] for row in rows)
    assert rows[0]["soft_f1"] == 0.25
    assert all(isinstance(row["exact_match"], bool) for row in rows)

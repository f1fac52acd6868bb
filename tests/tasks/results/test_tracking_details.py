"""What lies behind a score, in the JSON object, the metrics, the description and the table of predictions."""

import json
from dataclasses import replace

from tasks.documents.markdown import markdown
from tasks.pages.run import run_document
from tasks.results.build_record import record_of
from tasks.results.mlflow.package import measures
from tasks.results.predictions import table
from tasks.scoring.execution.run_times import Measured, Timings
from tasks.scoring.metric import ScoredRun, measure
from tasks.scoring.report import Report
from tests.tasks.results.samples import make_report, make_run


def detailed(report: Report, **options: object) -> Report:
    from tasks.database.schema import Column, Schema, Table

    hero = (Table("hero", (Column("power"), Column("name"))),)
    schemas = {name: Schema(name, hero, dialect="sqlite") for name in ("superhero", "card games")}
    return replace(report, details=measure(ScoredRun(report, schemas, **options)))  # type: ignore[arg-type]


def test_the_record_has_what_the_metrics_found() -> None:
    report = make_report(40)
    right = [row.question.id for row in report.rows if row.final.correct["bird"]]
    efficiency = Measured(
        {name: Timings(((1.0,), (4.0,)), ((1.0,), (4.0,))) for name in right}
    )  # half as long in the second trial
    measured = {"efficiency": efficiency, "soft_f1": {}}
    found = record_of(make_run(), detailed(report, measured=measured, exact_match=True)).metrics
    share = 100 * len(right) / 40
    assert found["efficiency"]["ves"] == {"mean": 1.5 * share, "low": share, "high": 2 * share}
    assert found["selection"]["candidates"] == ["1_preliminary_sql", "2_augmented_sql"]


def test_what_was_not_asked_for_is_null_in_json_and_no_metric() -> None:
    report = detailed(make_report(40))
    found = record_of(make_run(), report).metrics
    for name in ("efficiency", "soft_f1", "exact_match"):
        assert found[name] is None
    names = {measure.name for measure in measures(report)}
    assert not {name for name in names if name.startswith(("ves/", "soft_f1", "exact_match"))}


def test_mlflow_has_about_forty_metrics_and_the_record_the_rest() -> None:
    report = detailed(make_report(40))
    found = {measure.name: measure.value for measure in measures(report)}
    assert len(found) <= 40
    assert not any(name.startswith("ex_errors/") for name in found)
    assert sum(record_of(make_run(), report).metrics["errors"].values()) > 0
    assert found["questions/rules_disagree"] == len(report.measurements["disagreements"].data) > 0
    assert found["selection/oracle"] > 0
    assert min(found) == "ex", "MLflow sorts metrics by name, and this one comes first"


def test_the_table_of_predictions_says_why_each_answer_is_wrong() -> None:
    report = detailed(make_report(40), exact_match=True, measured={"soft_f1": {"0": 0.25}})
    content = json.loads(table(report))
    names = content["columns"]
    plain = json.loads(table(make_report(40)))["columns"]
    measured = ("errors", "exact_match", "exact_match_official", "soft_f1")
    assert [name for name in names if name not in measured] == plain
    assert names.index("error") < names.index("errors") < names.index("gold_sql")
    rows = [dict(zip(names, row, strict=True)) for row in content["data"]]
    assert all(bool(row["errors"]) != row["correct"] for row in rows)
    assert rows[0]["soft_f1"] == 0.25
    assert all(isinstance(row["exact_match"], bool) for row in rows)


def test_the_description_says_the_causes_once() -> None:
    text = markdown(run_document(record_of(make_run(), detailed(make_report(40)))))
    assert text.count("Causes of wrong answers") == 1
    assert (
        "| wrong\\_column | 11 |" in text
        and "14 of 40 questions are wrong; one may have several causes" in text
    )

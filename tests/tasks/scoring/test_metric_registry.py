"""A metric is one function in one file: declared, it is in every place that shows metrics."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.runtime.summary import print_summary
from tasks.core.errors import ConfigurationError
from tasks.documents.markdown import markdown
from tasks.pages.first_screen import run_document
from tasks.results.comparison import metric_rows
from tasks.results.mlflow.package import measures
from tasks.results.predictions_table import table
from tasks.results.run_record import RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.scoring.metric import METRICS, Metric, ScoredRun, find_metrics, headlines, measure
from tasks.scoring.scores import QuestionScore
from tasks.settings.home import Home
from tests.support.packages import install
from tests.tasks.results.samples import record_with
from tests.tasks.scoring.samples import score

LENGTH = """
from tasks.scoring.metric import ScoredRun, metric
from tasks.scoring.scores import Measurement, Ratio


@metric("Length of the SQL", unit="characters", better="lower")
def sql_length(run: ScoredRun) -> Measurement:
    lengths = {row.question.id: len(row.outcome.sql or "") for row in run.scored}
    return Measurement(Ratio(sum(lengths.values()), len(lengths)), by_question=lengths,
                       series={"sql_length_by_question": list(lengths.values())})
"""
SCORES = (score("1", "bird", sql="SELECT 1"), score("2", sql="SELECT 22"), score("3", executable=False))


@pytest.fixture
def length(tmp_path: Path) -> Metric:
    (tmp_path / "mine.py").write_text(LENGTH, encoding="utf-8")
    name = f"{tmp_path}/mine.py:sql_length"
    return next(one for one in find_metrics([name]) if one.name == "sql_length")


def measured(*metrics: Metric, rows: tuple[QuestionScore, ...] = SCORES, **facts: Any) -> RunRecord:
    return record_with(rows, measurements=measure(ScoredRun("bird", rows, {}), metrics), **facts)


def test_a_metric_of_one_file_is_in_json_terminal_mlflow_predictions_and_warehouse(
    length: Metric, tmp_path: Path
) -> None:
    record = measured(*find_metrics(), length, seconds=1.0)
    facts = {"title": "Length of the SQL", "unit": "characters", "better": "lower"}
    assert record.metrics["sql_length"] == {"correct": 17, "total": 2, "value": 8.5, **facts}

    with Path.open(tmp_path / "terminal.txt", "w") as stream:
        print_summary(record, Home(tmp_path), stream, details=True)
    assert "Length of the SQL: 8.50 characters (17 / 2)" in (tmp_path / "terminal.txt").read_text()
    assert "- Length of the SQL: 8.50 characters (17 / 2)" in markdown(run_document(record))

    found = [(one.value, one.step) for one in measures(record) if one.name.startswith("sql_length")]
    assert found == [(8.5, 0), (8.0, 1), (9.0, 2)]

    predictions = json.loads(table(record))
    column = predictions["columns"].index("sql_length")
    assert [row[column] for row in predictions["data"]] == [8, 9, None]

    warehouse = Warehouse(tmp_path / "warehouse.duckdb")
    warehouse.finish(record)
    assert Warehouse(tmp_path / "warehouse.duckdb").read_run(record.run_id) == record.model_copy(
        update={"measurements": {}}
    )


def test_a_metric_without_what_it_needs_is_unknown_and_not_zero() -> None:
    found = measured(*find_metrics()).metrics
    assert {name for name, one in found.items() if one is None} == {
        "selection", "strict_recall_or_correct", "exact_match", "soft_f1", "efficiency",
        "test_suite", "spider_postprocessed", "exact_match_official", "candidates",
        "turns",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "said"), [
    ("soft-f1", 'Did you mean "soft_f1"'),
    ("nowhere.py:x", "no such file"),
    ("{file}:sql_lenght", "sql_length"),
    ("{file}:plain", "put @metric"),
])  # fmt: skip
def test_a_metric_that_cannot_be_found_is_one_message(tmp_path: Path, name: str, said: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"{LENGTH}\n\ndef plain(run): ...\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=said):
        find_metrics([name.format(file=file)])


def test_metrics_of_packages_that_cannot_be_used_end_neither_a_run_nor_a_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source = f"{LENGTH.replace('sql_length(', 'selection(')}\nplain = 5\n"
    offers = "a_name = lengths:selection\nplain = lengths:plain\nabsent = lengths:absent"
    install(tmp_path, "lengths", source, f"[crosscheck.metrics]\n{offers}\n")
    shipped = find_metrics()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(METRICS, "_loaded", {})
    assert find_metrics() == shipped
    assert metric_rows(measured(*shipped), measured(*shipped))
    assert (
        'The metric "a_name" has the name of another, "selection": rename it. It is left out.' in caplog.text
    )
    for name in ("plain", "absent", "a_name"):
        with pytest.raises(ConfigurationError, match=f'"{name}"'):
            find_metrics([name])
    del sys.modules["lengths"]


def test_what_a_users_metric_gives_as_its_headline_breaks_no_screen() -> None:
    of_any_kind = {"object": {"value": 1}, "none": None, "text": "many", 3: [1], "count": 1200, "share": 0.5}
    metrics = {"mine": {"headline": of_any_kind}, "text": {"headline": "x"}, "list": [1], "absent": None}
    assert headlines(metrics) == {
        "object": "{'value': 1}",
        "none": "None",
        "text": "many",
        "3": "[1]",
        "count": "1,200",
        "share": "0.50",
    }

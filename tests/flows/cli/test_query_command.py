"""`crosscheck query` and `crosscheck export`: everything can be read, nothing can be changed."""

import csv
import io
import json
import re
from pathlib import Path

import duckdb
import pytest

from flows.runtime.output import emit_json
from tasks.results.build_record import record_of
from tasks.results.warehouse.runs import Warehouse
from tasks.results.warehouse.views import MEANINGS, views
from tasks.scoring.cost import Cost
from tasks.settings.home import Home
from tests.support.command_line import ROOT
from tests.support.in_process import run
from tests.tasks.results.samples import make_record, make_rows, make_run


@pytest.fixture
def two_runs(home: Home) -> Home:
    """A working folder whose warehouse has two runs of 20 questions, the second a re-run of the first."""
    warehouse = Warehouse(home.warehouse)
    first = make_run()
    tags = {"parent_run_id": first.run_id, "rerolled": "true", "sweep": "s1"}
    second = first.model_copy(update={"run_id": "20991231-000000-ffffff", "tags": tags})
    facts = {"cost": Cost(calls=7, cached_calls=0), "mlflow_run_id": "m1", "seconds": 1.5}
    for one in (first, second):
        warehouse.finish(record_of(one, make_rows(20), **facts))
    return home


def of_page() -> list[str]:
    """The queries of the page about the warehouse."""
    page = (ROOT / "docs" / "warehouse.md").read_text(encoding="utf-8")
    return re.findall(r"```sql\n(.*?)```", page, re.DOTALL)


def rows(sql: str) -> list[dict[str, object]]:
    ran = run("query", sql, "--json")
    assert ran.code == 0, ran.err
    return ran.json["rows"]


@pytest.mark.usefixtures("two_runs")
def test_a_run_shows_its_score_its_bill_where_it_comes_from_and_its_right_answers() -> None:
    first, second = found = rows("SELECT * FROM runs ORDER BY run_id")
    report = make_record(20)
    assert [row["ex"] for row in found] == [pytest.approx(report.score.ex)] * 2
    assert (first["calls"], first["cost_usd"], first["rerolled"], second["rerolled"]) == (
        7,
        None,
        False,
        True,
    )
    assert (second["parent_run_id"], second["sweep"]) == (first["run_id"], "s1")
    assert second["mlflow_run_id"] == "m1"
    right = "SELECT count(*) FILTER (correct) AS n FROM questions WHERE executable GROUP BY run_id"
    assert [row["n"] for row in rows(right)] == [report.score.correct] * 2


@pytest.mark.usefixtures("two_runs")
def test_what_json_has_no_form_for_is_text(capsys: pytest.CaptureFixture[str]) -> None:
    sql = "SELECT 'inf'::DOUBLE AS a, '-inf'::DOUBLE AS b, ['nan'::DOUBLE, 1.5] AS c, 'x'::BLOB AS d, 2.5::DOUBLE AS e"
    ran = run("query", sql, "--json")
    (row,) = json.loads(ran.out, parse_constant=refuse)["rows"]
    assert row == {"a": "inf", "b": "-inf", "c": ["nan", 1.5], "d": "b'x'", "e": 2.5}
    emit_json({"metric": {"value": float("nan"), "right": True, "none": None}, "rows": ((1, float("inf")),)})
    found = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert found == {"metric": {"value": "nan", "right": True, "none": None}, "rows": [[1, "inf"]]}


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


@pytest.mark.usefixtures("two_runs")
def test_every_view_has_exactly_the_documented_columns() -> None:
    listed = run("query", "--json").json
    for name in views():
        assert list(rows(f"SELECT * FROM {name} LIMIT 1")[0]) == listed[name]
        assert f"{name}:" in run("query").out


def test_every_column_has_its_type_and_meaning() -> None:
    described = run("query", "--schema", "--json").json
    assert {name: [column["name"] for column in columns] for name, columns in described.items()} == {
        name: list(view.columns) for name, view in views().items()
    }
    assert {name: set(MEANINGS[name]) for name in views()} == {
        name: set(view.columns) for name, view in views().items()
    }
    assert all(column["type"] and column["meaning"] for columns in described.values() for column in columns)
    shown = run("query", "--schema").out
    assert "correct / total, 0 to 1" in shown and "MAP(VARCHAR, BOOLEAN)" in shown
    assert run("query", "SELECT 1", "--schema").code == 2


@pytest.mark.usefixtures("two_runs")
def test_every_documented_example_runs() -> None:
    assert len(of_page()) == 10
    of_help = re.findall(r'crosscheck query "(.+?)"', run("query", "--help").out, re.DOTALL)
    assert len(of_help) > 3
    for query in (*of_page(), *of_help):
        ran = run("query", query)
        assert ran.code == 0, ran.err


def test_the_accuracy_by_difficulty_mixes_neither_benchmarks_nor_backbones(two_runs: Home) -> None:
    warehouse, first = Warehouse(two_runs.warehouse), make_run()
    records = {(first.benchmark, first.backbone): make_record(20)}
    for place, names in enumerate((("spider-dev", first.backbone), (first.benchmark, "b2"))):
        changes = {"run_id": f"20991231-00000{place}-aaaaaa", "benchmark": names[0], "backbone": names[1]}
        records[names] = record_of(first.model_copy(update=changes), make_rows(40))
        warehouse.finish(records[names])
    (query,) = (each for each in of_page() if "PIVOT" in each)
    shown = {
        (row["benchmark"], row["backbone"], row["difficulty"]): row[first.pipeline] for row in rows(query)
    }
    assert shown == {
        (*names, grade): f"{100 * share.correct / share.total:.2f} % ({share.correct} of {share.total})"
        for names, record in records.items()
        for grade, share in record.by_difficulty.items()
    }


@pytest.mark.usefixtures("two_runs")
def test_a_table_a_csv_and_a_json_object_say_the_same() -> None:
    sql = "SELECT question_id, NULL AS unknown, 1.5 AS x, 'a,\"b' AS text FROM questions ORDER BY 1 LIMIT 2"
    text = run("query", sql).out
    assert "question_id" in text and "–" in text and "2 rows" in text
    read = as_csv(sql)
    assert read[0] == ["question_id", "unknown", "x", "text"]
    assert read[1][1:] == ["", "1.5", 'a,"b']
    assert rows(sql)[0]["unknown"] is None


@pytest.mark.usefixtures("two_runs")
def test_a_csv_has_every_digit_and_a_table_every_digit_before_the_point() -> None:
    sql = "SELECT 1234567.891::DOUBLE AS large, 1::DOUBLE / 3 AS share, 123456.789::DOUBLE AS tokens"
    assert as_csv(sql)[1] == ["1234567.891", "0.3333333333333333", "123456.789"]
    assert run("query", sql).out.splitlines()[2].split() == ["1234567.891", "0.333333", "123456.789"]


def as_csv(sql: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(run("query", sql, "--csv").out)))


@pytest.mark.usefixtures("two_runs")
def test_no_cell_of_a_csv_is_a_formula_in_a_spreadsheet() -> None:
    cells = (
        "=1+1", "+A1", "-A1", "@SUM(A1)", "\t=1+1", "\r=1+1", "--x\nSELECT 1", "-1=cmd|'/c calc'!A1", "=1"
    )  # fmt: skip
    sql = "SELECT " + ", ".join(f"""$${cell}$$ AS "{cell}\"""" for cell in cells)
    for row in as_csv(sql):
        assert row == [f"'{cell}".replace("\r", "\n") for cell in cells]
    numbers = "SELECT -1 AS a, -1e-9 AS b, '+5 %' AS c, 'a=1' AS d"
    assert as_csv(numbers)[1] == ["-1", "-1e-09", "+5 %", "a=1"]


@pytest.mark.usefixtures("two_runs")
def test_an_export_holds_every_row_of_every_view_and_replaces_another_only_when_told(tmp_path: Path) -> None:
    folder = tmp_path / "the export"
    ran = run("export", str(folder), "--json")
    assert ran.code == 0, ran.err
    for name, view in views().items():
        relation = duckdb.read_parquet(str(folder / f"{name}.parquet"))
        assert relation.columns == list(view.columns)
        assert len(relation.fetchall()) == ran.json["rows"][name] > 0
    assert sorted(file.suffix for file in folder.iterdir()) == [".parquet"] * len(views())
    run("export", str(folder)).assert_refused("--overwrite")
    assert run("export", str(folder), "--overwrite").code == 0

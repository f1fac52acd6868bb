"""`crosscheck score` on Spider 2.0-lite: accepted results in place of gold SQL."""

import json
from pathlib import Path

import pytest

from tests.support.in_process import run

SALES = (
    "SELECT c.Country, SUM(i.Total) AS sales FROM customers c JOIN invoices i ON i.CustomerId = c.CustomerId "
    "GROUP BY c.Country HAVING COUNT(DISTINCT c.CustomerId) > 4"
)
RANKED = f"SELECT *, ROW_NUMBER() OVER (ORDER BY sales) AS place, COUNT(*) OVER () AS n FROM ({SALES})"
MEDIAN = f"SELECT AVG(sales) AS median FROM ({RANKED}) WHERE place IN ((n + 1) / 2, (n + 2) / 2)"
RIGHT = {
    "its name is anything": MEDIAN.replace("AS median", 'AS "whatever it is"'),
    "in a table with further columns": f"SELECT 'x' AS a, m.median, 7 AS b FROM ({MEDIAN}) m",
    "a value within 0.01": "SELECT 249.534",
}
WRONG = {"another value": "SELECT 249.6", "two rows": f"SELECT 249.53 UNION ALL {MEDIAN}"}


@pytest.fixture(autouse=True)
def in_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))


def scored(shared_data: Path, file: Path, *further: str) -> tuple[int, dict[str, object], str]:
    benchmark = ("--benchmark", "spider2-lite", "--data", str(shared_data))
    ran = run("score", *benchmark, "--predictions", str(file), "--json", *further)
    return ran.code, json.loads(ran.out) if ran.out else {}, ran.err


@pytest.mark.slow
def test_the_median_of_local198_is_right_with_any_name_and_beside_further_columns(
    shared_data: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mine.jsonl"
    for sqls, right in ((RIGHT, 1), (WRONG, 0)):
        for what, sql in sqls.items():
            line = {"instance_id": "local198", "db": "chinook", "sql": sql}
            file.write_text(json.dumps(line), encoding="utf-8")
            code, summary, err = scored(shared_data, file, "--questions", "local198")
            assert code == 0, err
            assert (list(summary["scores"]), summary["correct"], summary["total"]) == (
                ["subset"],
                right,
                1,
            ), what


def test_questions_without_a_database_or_a_result_are_counted_apart(
    shared_data: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text('instance_id,sql\nlocal055,"SELECT 4.143333"\n', encoding="utf-8")
    code, summary, err = scored(shared_data, file)
    assert code == 0, err
    assert (summary["questions"], summary["scored"], summary["without_gold"]) == (135, 3, 0)
    assert sum(dict(summary["missing_databases"]).values()) == 132  # type: ignore[call-overload]
    assert summary["correct"] == 1  # type: ignore[call-overload]


def test_a_rule_that_needs_gold_sql_is_refused(shared_data: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text('instance_id,sql\nlocal055,"SELECT 4.143333"\n', encoding="utf-8")
    code, _, err = scored(shared_data, file, "--rules", "bird")
    assert code == 2
    assert "no gold SQL" in err
    assert "Valid: subset" in err

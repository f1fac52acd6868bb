"""`crosscheck tables` on a stored run, in every form."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from tests.support.in_process import run


@pytest.fixture
def scored(tmp_path: Path, built_demo: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A scored file with run times; returns the run's id."""
    shutil.copytree(built_demo, tmp_path / "home")
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    questions = json.loads(
        (tmp_path / "home" / "benchmarks" / "demo" / "dev.json").read_text(encoding="utf-8")
    )
    predictions = [{"question_id": each["question_id"], "sql": each["SQL"]} for each in questions[:4]]
    file = tmp_path / "made.jsonl"
    file.write_text("\n".join(map(json.dumps, predictions)), encoding="utf-8")
    ran = run(
        "score", "--predictions", str(file), "--limit", "5", "--trials", "2", "--json",
        "--set", "benchmark.efficiency=true",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    assert "Efficiency over 5 questions, 4 timed" in run("show", "latest", "--details").out
    return str(ran.json["run_id"])


@pytest.mark.slow
def test_tables_are_printed_as_text_json_markdown_latex_csv_and_on_a_page(
    scored: str, tmp_path: Path
) -> None:
    shown = run("tables", "latest", "--paper", "rsl-sql")
    assert shown.code == 0, shown.err
    assert "80.00 (4/5)" in shown.out and "run " + scored in shown.out
    assert "(a) the pipeline links no schema" in shown.out
    found = run("tables", scored, "--paper", "sea-sql", "--json").json
    titles = {each["title"]: each for each in found["tables"]}
    times = {row["name"]: row["cells"] for row in titles["Efficiency by difficulty"]["rows"]}
    assert times["A: VES"]["total"]["value"] > 0 and times["A: ves_steps"]["total"]["value"] == 80
    rows = list(csv.DictReader(io.StringIO(run("tables", scored, "--paper", "sea-sql", "--csv").out)))
    (total,) = (row for row in rows if row["row"] == "A: ves_steps" and row["column"] == "total")
    assert float(total["value"]) == 80 and total["unknown"] == ""
    markdown = run("tables", scored, scored, "--paper", "dac", "--markdown").out
    assert "## Ablations" in markdown and "- (a) no question of the run was corrected" in markdown
    latex = run("tables", scored, "--paper", "rsl-sql", "--latex").out
    first, *_ = latex.splitlines()
    assert first.startswith("% A: ") and scored in first, "which run A is"
    assert "\\begin{table}" in latex and "80.00 (4/5)" in latex
    assert not [line for line in latex.splitlines() if line.endswith(": A}")], "no caption ends in a letter"
    assert "\n(a) the pipeline links no schema\n" in latex
    assert latex.count("\n%") == 0, "all that a reader needs is printed"
    file = tmp_path / "tables.html"
    ran = run("tables", scored, "--paper", "rsl-sql", "--html", str(file))
    page = file.read_text(encoding="utf-8")
    assert f"The page is {file}." in ran.out and "Tables of the RSL-SQL paper" not in ran.out
    assert "<h1>Tables of the RSL-SQL paper</h1>" in page and "80.00 (4/5)" in page and scored in page


def test_what_is_wrong_is_said_in_words(scored: str) -> None:
    wrong = run("tables", scored, "--paper", "dac", "--json", "--csv")
    assert wrong.code == 2 and "cannot be used together" in wrong.err
    unknown = run("tables", "nope", "--paper", "dac")
    assert unknown.code == 2 and 'There is no run "nope"' in unknown.err

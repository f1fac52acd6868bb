"""`crosscheck tables` on a stored run, in every form."""

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
def test_tables_are_printed_as_text_json_markdown_and_on_a_page(scored: str, tmp_path: Path) -> None:
    shown = run("tables", "latest")
    assert shown.code == 0, shown.err
    assert "80.00 % (4/5)" in shown.out and "run " + scored in shown.out
    titles = {each["title"]: each for each in run("tables", scored, "--json").json["tables"]}
    times = {row["name"]: row["cells"] for row in titles["Efficiency by difficulty"]["rows"]}
    assert times["A: VES"]["total"]["mean"] > 0 and times["A: ves_steps"]["total"] == 80
    markdown = run("tables", scored, scored, "--markdown").out
    assert "Ablations" in markdown and "80.00 % (4/5)" in markdown
    file = tmp_path / "tables.html"
    ran = run("tables", scored, "--html", str(file))
    page = file.read_text(encoding="utf-8")
    assert f"The page is {file}." in ran.out
    assert "<h1>Tables of runs</h1>" in page and "80.00 % (4/5)" in page and scored in page


def test_what_is_wrong_is_said_in_words(scored: str) -> None:
    unknown = run("tables", "nope")
    assert unknown.code == 2 and 'There is no run "nope"' in unknown.err

"""A working folder of an earlier release: runs, night, compare and query read it."""

import csv
import io
from pathlib import Path

import pytest

from tests.support.in_process import run
from tests.tasks.tracking.earlier_release import BASELINE, NIGHT, NIGHTLY, RUN, working_folder


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder that commit 39ba542 wrote."""
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    working_folder(tmp_path / "home")
    return tmp_path


def test_runs_lists_them() -> None:
    listed = run("runs", "--json").json
    assert listed["total"] == 4
    assert {each["run_id"] for each in listed["runs"]} >= {RUN, BASELINE, NIGHTLY}
    assert "66.67 %" in run("runs").out


def test_night_shows_its_verdict_and_makes_its_page_anew(home: Path) -> None:
    ran = run("night", NIGHT, "--json", "--html", str(home / "night.html"))
    assert ran.code == 1, ran.err
    assert [each["standing"] for each in ran.json["evaluations"]] == ["regression", "infrastructure"]
    assert ran.json["evaluations"][0]["p_value"] == pytest.approx(0.0654, abs=1e-4)
    assert "What is 2?" in (home / "night.html").read_text(encoding="utf-8")


def test_compare_pairs_two_of_them_and_makes_their_page(home: Path) -> None:
    ran = run("compare", BASELINE, NIGHTLY, "--json", "--html", str(home / "page.html"))
    assert ran.code == 0, ran.err
    assert (ran.json["fixed"], ran.json["broken"]) == (2, 9)
    assert (home / "page.html").exists()


def test_query_reads_every_view() -> None:
    counted = {
        view: run("query", f"SELECT count(*) AS n FROM {view}", "--json").json["rows"][0]["n"]
        for view in ("runs", "questions", "candidates", "stages", "calls")
    }
    assert counted == {"runs": 4, "questions": 63, "candidates": 104, "stages": 104, "calls": 104}
    said = run("query", "SELECT question_id, error FROM questions WHERE status = 'ok'", "--csv").out
    assert {row[1] for row in csv.reader(io.StringIO(said))} == {"error", ""}

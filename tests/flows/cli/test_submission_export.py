"""`crosscheck export --submission`: what the official evaluators read, and what `crosscheck score` makes of it."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.support.in_process import run

SPOILED = {1: "SELECT nothing FROM nowhere", 4: "SELECT 1 -- a remark\n  ,\t2"}


@pytest.fixture
def home(tmp_path: Path, built_demo: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    shutil.copytree(built_demo, tmp_path / "home")
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


def verdicts(home: Home, run_id: str) -> dict[str, Mapping[str, bool]]:
    rows = Warehouse(home.warehouse).read_run(run_id).rows
    return {row.question.id: row.final.correct for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize(("form", "ending"), [(None, "json"), ("spider", "txt")])
def test_an_exported_run_has_the_same_verdicts_when_it_is_scored(
    home: Home, tmp_path: Path, form: str | None, ending: str
) -> None:
    questions = json.loads((home.path / "benchmarks" / "demo" / "dev.json").read_text(encoding="utf-8"))
    made = [
        {"question_id": each["question_id"], "sql": SPOILED.get(place, each["SQL"])}
        for place, each in enumerate(questions[:9])
        if place != 6
    ]
    given = tmp_path / "made.jsonl"
    given.write_text("\n".join(map(json.dumps, made)), encoding="utf-8")
    scored = run("score", "--predictions", str(given), "--limit", "9", "--json")
    assert scored.code == 0, scored.err
    file = tmp_path / f"predict.{ending}"
    chosen = () if form is None else ("--format", form)
    exported = run("export", "latest", "--submission", str(file), *chosen, "--json")
    assert exported.code == 0, exported.err
    assert (exported.json["answered"], exported.json["questions"]) == (8, len(questions))
    again = run("score", "--predictions", str(file), "--questions", "0-8", "--json")
    assert again.code == 0, again.err
    before, after = (verdicts(home, ran.json["run_id"]) for ran in (scored, again))
    assert before == after and len(before) == 9
    assert {name for name, correct in before.items() if not correct["bird"]} >= {"1", "4", "6"}
    assert again.json["answered"] == 8

    refused = run("export", "latest", "--submission", str(file))
    assert refused.code == 2 and "--overwrite" in refused.err


def test_what_the_form_cannot_hold_is_named(home: Home, tmp_path: Path) -> None:
    given = tmp_path / "made.jsonl"
    given.write_text('{"question_id": 0, "sql": "SELECT \'a\\nb\'"}', encoding="utf-8")
    assert run("score", "--predictions", str(given), "--limit", "1").code == 0
    spider = run("export", "latest", "--submission", str(tmp_path / "a.txt"), "--format", "spider")
    assert "1 SQL has a line break or tab inside a literal" in spider.out
    wrong = run("export", "results", "--format", "spider")
    assert wrong.code == 2 and "--submission" in wrong.err

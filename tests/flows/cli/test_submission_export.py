"""`crosscheck export --submission`: what the official evaluators read, and what `crosscheck score` makes of it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.support.demo import demo_questions, write_predictions
from tests.support.in_process import run

SPOILED = {1: "SELECT nothing FROM nowhere", 4: "SELECT 1 -- a remark\n  ,\t2"}


def verdicts(home: Home, run_id: str) -> dict[str, Mapping[str, bool]]:
    rows = Warehouse(home.warehouse).read_run(run_id).rows
    return {row.question.id: row.final.correct for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "chosen"), [("json", ()), ("txt", ("--format", "spider"))])
def test_an_exported_run_has_the_same_verdicts_when_it_is_scored(
    demo_home: Home, tmp_path: Path, ending: str, chosen: tuple[str, ...]
) -> None:
    questions = demo_questions(demo_home.path)
    made = {
        str(each["question_id"]): SPOILED.get(place, each["SQL"])
        for place, each in enumerate(questions[:9])
        if place != 6
    }
    given, file = write_predictions(tmp_path / "made.jsonl", made), str(tmp_path / f"predict.{ending}")
    scored = run("score", "--predictions", given, "--limit", "9", "--json")
    assert scored.code == 0, scored.err
    exported = run("export", "latest", "--submission", file, *chosen, "--json")
    assert exported.code == 0, exported.err
    assert (exported.json["answered"], exported.json["questions"]) == (8, len(questions))
    again = run("score", "--predictions", file, "--questions", "0-8", "--json")
    assert again.code == 0, again.err
    before, after = (verdicts(demo_home, ran.json["run_id"]) for ran in (scored, again))
    assert before == after and len(before) == 9
    assert {name for name, correct in before.items() if not correct["bird"]} >= {"1", "4", "6"}
    assert again.json["answered"] == 8
    run("export", "latest", "--submission", file).assert_refused("--overwrite")


@pytest.mark.usefixtures("demo_home")
def test_what_the_form_cannot_hold_is_named(tmp_path: Path) -> None:
    given = write_predictions(tmp_path / "made.jsonl", {"0": "SELECT 'a\nb'"})
    assert run("score", "--predictions", given, "--limit", "1").code == 0
    spider = run("export", "latest", "--submission", str(tmp_path / "a.txt"), "--format", "spider")
    assert "1 SQL has a line break or tab inside a literal" in spider.out
    run("export", "results", "--format", "spider").assert_refused("--submission")

"""Questions without a database or a gold: counted apart, each with its own reason, and part of no score."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from flows.runtime import progress
from tests.support.demo import write_predictions
from tests.support.in_process import run

QUESTIONS, WITHOUT_DATABASE, WITHOUT_GOLD = 10, ("10",), ("8", "9")
SCORED = QUESTIONS - len(WITHOUT_DATABASE) - len(WITHOUT_GOLD)
UNANSWERED = ("1", "2", "3")
LAYOUT = """
from dataclasses import replace
from tasks.benchmarks.layouts import Layout


class Partly(Layout):
    def read_split(self, path):
        split = super().read_split(path)
        return replace(split, gold={name: sql for name, sql in split.gold.items() if sql != "none"})
"""


@pytest.fixture
def scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Arguments that score a file: ten questions, of which one lacks its database, two their gold, three an answer."""
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    file = tmp_path / "bench" / "dbs" / "shop" / "shop.sqlite"
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE item (name TEXT)")
    names = [str(number) for number in range(1, QUESTIONS + 1)]
    databases = dict.fromkeys(names, "shop") | dict.fromkeys(WITHOUT_DATABASE, "gone")
    golds = {name: f"SELECT {name}" for name in names} | dict.fromkeys(WITHOUT_GOLD, "none")
    questions = [
        {
            "question_id": int(name),
            "db_id": databases[name],
            "question": f"What is {name}?",
            "SQL": golds[name],
        }
        for name in names
    ]
    (tmp_path / "bench" / "dev.json").write_text(json.dumps(questions), encoding="utf-8")
    (tmp_path / "partly.py").write_text(LAYOUT, encoding="utf-8")
    settings = tmp_path / "bench.yaml"
    settings.write_text(
        f'layout: partly.py:Partly\nfolder: {tmp_path}/bench\ntables: ""\nquestions: dev.json\ndatabases: dbs\n'
        'revision: "1"\nrule: bird\n',
        encoding="utf-8",
    )
    answers = tmp_path / "answers.jsonl"
    given = write_predictions(answers, {name: f"SELECT {name}" for name in names if name not in UNANSWERED})
    return ["score", "--benchmark", str(settings), "--predictions", given]


def test_every_count_and_reason_is_of_the_questions_that_it_speaks_of(scored: list[str]) -> None:
    ran = run(*scored)
    assert ran.code == 0, ran.err
    judging = re.findall(r"Judging question (\d+) of (\d+)", ran.err)
    assert judging[-1] == (str(SCORED), str(SCORED))
    lines = ran.out.splitlines()
    assert re.search(rf"✗ 3 of {SCORED} questions \(.*\) have no answer and count as wrong", ran.out)
    assert f"execution accuracy 57.14 % (4 of {SCORED}" in ran.out
    for shown in (lines, run("show", "latest").out.splitlines()):
        assert "! 1 of 10 questions is not scored, the database is missing: gone (1)" in shown
        assert "! 2 of 10 questions are not scored, the benchmark's files have no gold" in shown

    reasons = {name: run("show", "latest", name).out for name in (*WITHOUT_DATABASE, *WITHOUT_GOLD)}
    assert "not scored: the database was missing" in reasons["10"]
    for name in WITHOUT_GOLD:
        assert "not scored: it has no gold" in reasons[name] and "itself fails" not in reasons[name]

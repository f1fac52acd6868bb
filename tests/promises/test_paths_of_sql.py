"""Hostile SQL through the commands that execute it: as predictions, as golds, as a model's answers, and on pages."""

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.support import in_process
from tests.support.counting import Count
from tests.support.fake_openai import FakeOpenAI
from tests.support.hostile import statements, written_out
from tests.tasks.database.conftest import CONTENT

pytestmark = pytest.mark.slow

EVERY = 4
"""Of the corpus, every fourth statement; `test_hostile_sql.py` executes, scores and parses all."""
ANSWERED = 4
"""Statements that a model answers a question with."""
LIMIT = ("--set", "benchmark.timeout_s=0.2")


@pytest.mark.promise("paths")
def test_no_command_lets_sql_do_more_than_read(
    tmp_path: Path, built_demo: Path, fake_openai: FakeOpenAI, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [(expected, written_out(sql)) for expected, sql in statements("sqlite")]
    corpus = [each for each in every if each[1].strip()][::EVERY]  # a file with an empty gold is refused
    folder = tmp_path / "mine" / "dev_databases" / "concert"
    folder.mkdir(parents=True)
    database = folder / "concert.sqlite"
    with closing(sqlite3.connect(database)) as connection:
        connection.executescript(CONTENT)
    before = hashlib.sha256(database.read_bytes()).hexdigest()
    golds = [sql for _, sql in (*corpus[1:], corpus[0])]
    questions = [
        {"question_id": number, "db_id": "concert", "question": f"{number}?", "evidence": "", "SQL": sql}
        for number, sql in enumerate(golds)
    ]
    (tmp_path / "mine" / "dev.json").write_text(json.dumps(questions), encoding="utf-8")
    mine = tmp_path / "mine.yaml"
    mine.write_text(
        yaml.safe_dump({"layout": "bird", "folder": "mine", "revision": "1", "rule": "bird", "tables": ""}),
        encoding="utf-8",
    )
    predictions = {number: sql for number, (_, sql) in enumerate(corpus)}
    (tmp_path / "predictions.json").write_text(json.dumps(predictions), encoding="utf-8")
    home = Home(tmp_path / "home")
    shutil.copytree(built_demo, home.path)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("CROSSCHECK_HOME", str(home.path))
    monkeypatch.setenv("CROSSCHECK_DATA", str(tmp_path))

    scored = in_process.run(
        "score", "--benchmark", str(mine), "--predictions", "../predictions.json", "--json", *LIMIT
    )
    assert scored.code == 0, scored.err
    run = Warehouse(home.warehouse).read_run(scored.json["run_id"])
    found = {row.question.id: row.final for row in run.rows}
    for number, (expected, sql) in enumerate(corpus):
        with count.fault(f"scored: {sql}"):
            assert expected != "refused" or found[str(number)].status != "ok"
    checked = in_process.run("benchmarks", "verify", "--benchmark", str(mine), "--json", *LIMIT)
    kinds = ("error", "timeout", "too_large")
    named = {str(each["id"]) for kind in kinds for each in checked.json[kind]}
    for number, (expected, sql) in enumerate((*corpus[1:], corpus[0])):
        with count.fault(f"as gold: {sql}"):
            assert expected != "refused" or str(number) in named
    with count.fault("all of them on a page"):
        ran = in_process.run("show", "latest", "--html", "page.html")
        assert ran.code == 0 and "Traceback" not in ran.err, ran.err
    backbone = work / "b.yaml"
    backbone.write_text(
        yaml.safe_dump({"model": "m", "base_url": fake_openai.base_url, "response_mode": "json_object"}),
        encoding="utf-8",
    )
    refused = [sql for expected, sql in corpus if expected == "refused"]
    for sql in refused[:: len(refused) // ANSWERED][:ANSWERED]:
        fake_openai.answer = lambda _, sql=sql: json.dumps({"sql": sql})
        with count.fault(f"answered: {sql}"):
            words = ("--database", str(database), "--backbone", "b.yaml", "--pipeline", "zero-shot")
            ran = in_process.run("answer", "How many?", *words)
            assert ran.code == 1 and "Traceback" not in ran.out + ran.err, ran.out + ran.err
    with count.fault("nothing is changed, and no file is made"):
        assert hashlib.sha256(database.read_bytes()).hexdigest() == before
        assert sorted(path.name for path in work.iterdir()) == ["b.yaml", "page.html"]
        assert [path.name for path in folder.iterdir()] == ["concert.sqlite"]
        assert not list(Path("/tmp").glob("evil*"))

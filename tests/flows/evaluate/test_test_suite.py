"""A Spider folder with several databases per id, scored as a user does."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.support.in_process import run

ROWS = {
    "shop": "(1, 'cup', 2), (2, 'pot', 9)",
    "shop_a": "(1, 'cup', 7), (2, 'pot', 9)",
    "shop_b": "(2, 'jar', 6)",
}


@pytest.fixture
def spider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two questions on one database id that has three databases; returns the benchmark's file."""
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    folder = tmp_path / "mine"
    (folder / "database" / "shop").mkdir(parents=True)
    for name, rows in ROWS.items():
        with closing(sqlite3.connect(folder / "database" / "shop" / f"{name}.sqlite")) as connection:
            connection.executescript(
                f"CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL); INSERT INTO item VALUES {rows};"
            )
    questions = [
        {"db_id": "shop", "question": "What is dear?", "query": "SELECT name FROM item WHERE price > 5"},
        {"db_id": "shop", "question": "How many are there?", "query": "SELECT count(*) FROM item"},
    ]
    (folder / "dev.json").write_text(json.dumps(questions), encoding="utf-8")
    settings = {"layout": "spider", "folder": str(folder), "tables": "", "databases": "database"}
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({**settings, "revision": "1", "rule": "spider"}), encoding="utf-8")
    predictions = "SELECT name FROM item WHERE id = 2\nSELECT count(id) FROM item\n"
    (tmp_path / "predicted.txt").write_text(predictions, encoding="utf-8")
    return file


def test_all_databases_of_a_folder_must_agree_and_the_report_counts_them(
    spider: Path, tmp_path: Path
) -> None:
    score = ("score", "--benchmark", str(spider), "--predictions", str(tmp_path / "predicted.txt"), "--json")
    ran = run(*score, "--details")
    assert ran.code == 0, ran.err
    assert (ran.json["rule"], ran.json["correct"], ran.json["total"]) == ("spider", 1, 2)
    assert ran.json["metrics"]["test_suite"] == {
        "first_database_alone": {"correct": 2, "total": 2, "value": 1.0},
        "databases": {"shop": 3},
    }
    assert "Test suite: 3 databases for 1 database id (3 each); all must agree" in " ".join(ran.err.split())
    remark = run("show", "latest", "0", "--json").json["results_remark"]
    assert remark.startswith("On this database the results are equal, and the answer is wrong:")
    assert run("show", "latest", "1", "--json").json["results_remark"] == ""
    alone = run(*score, "--set", "benchmark.test_suite=false")
    assert alone.json["correct"] == 2 and alone.json["metrics"]["test_suite"] is None


def test_files_of_another_schema_are_named_once_before_anything_is_scored(
    spider: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mine" / "database" / "shop"
    (folder / "._shop.sqlite").write_bytes(b"macOS")
    (folder / "broken.sqlite").write_bytes(b"no database at all" * 100)
    with closing(sqlite3.connect(folder / "notes.sqlite")) as connection:
        connection.execute("CREATE TABLE item (id INTEGER, name TEXT)")
    score = ("score", "--benchmark", str(spider), "--predictions", str(tmp_path / "predicted.txt"))
    for command in (score, ("benchmarks", "verify", "--benchmark", str(spider))):
        ran = run(*command)
        assert ran.code == 2
        assert "2 files beside a database cannot be part of its test suite" in ran.err
        assert ran.err.count("notes.sqlite lacks item.price") == ran.err.count("broken.sqlite") == 1
        assert "._shop" not in ran.err
    assert run(*score, "--set", "benchmark.test_suite=false").code == 0


def test_a_gold_is_verified_on_every_database_on_which_it_is_scored(spider: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "mine" / "database" / "shop" / "shop_b.sqlite")) as connection:
        connection.execute("UPDATE item SET price = CAST(zeroblob(9) AS TEXT)")
        connection.execute("INSERT INTO item VALUES (3, 'pan', -9223372036854775808)")
        connection.commit()
    questions = [{"db_id": "shop", "question": "?", "query": "SELECT abs(CAST(price AS INTEGER)) FROM item"}]
    (tmp_path / "mine" / "dev.json").write_text(json.dumps(questions), encoding="utf-8")
    ran = run("benchmarks", "verify", "--benchmark", str(spider), "--json")
    assert "shop_b.sqlite: integer overflow" in ran.out
    alone = run(
        "benchmarks", "verify", "--benchmark", str(spider), "--set", "benchmark.test_suite=false", "--json"
    )
    assert "shop_b.sqlite" not in alone.out

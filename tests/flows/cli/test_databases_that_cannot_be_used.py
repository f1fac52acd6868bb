"""Databases that cannot be used: one message each, what, where and how to mend it, exit code 2, and no password."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from tests.support import mariadb, postgres
from tests.support.command_line import Ran
from tests.support.demo import write_predictions
from tests.support.in_process import run

TABLE = "CREATE TABLE item (name VARCHAR(9), price REAL)"


@pytest.fixture(scope="module")
def reader() -> Iterator[str]:
    """URL of a PostgreSQL database that one role reads."""
    with postgres.new_reader(TABLE) as url:
        yield url


@pytest.fixture(scope="module")
def with_password() -> Iterator[str]:
    """URL of a MariaDB database whose role has a password, which is not in it."""
    with mariadb.new_database(TABLE) as url:
        name = url.partition("//")[2].partition("@")[0]
        for host in ("%", "localhost"):
            mariadb.execute(f"SET PASSWORD FOR {name}@'{host}' = PASSWORD('right')")
        yield url


def test_a_role_a_database_or_rights_that_are_not_there(reader: str, with_password: str) -> None:
    role = reader.partition("//")[2].partition("@")[0]
    _refused(reader.replace(role, "nobody_here:secret"), 'role "nobody_here" does not exist')
    _refused(
        reader.replace(f"{role}@", f"{role}:secret@").rpartition("/")[0] + "/not_here",
        "/not_here: there is no database",
    )
    _refused(reader + "?schema=elsewhere", "has no tables that its role may read")
    _refused(with_password.replace("@", ":secret@"), "Check user and password")
    _refused(with_password, "Check user and password")
    _refused("postgresql://postgres@127.0.0.1" + reader[reader.rindex("/") :], "is a superuser")


def test_a_duckdb_file_or_a_folder_that_is_none(tmp_path: Path) -> None:
    for path in (tmp_path / "gone.duckdb", tmp_path):
        _refused(
            str(path), f"--database {path}: there is no database. Name a SQLite or DuckDB file, a folder of"
        )
    (tmp_path / "text.duckdb").write_text("no database", encoding="utf-8")
    _refused(str(tmp_path / "text.duckdb"), "cannot be opened by DuckDB")
    duckdb.connect(str(tmp_path / "empty.duckdb")).close()
    _refused(str(tmp_path / "empty.duckdb"), "has no tables")


def _refused(url: str, said: str) -> None:
    ran = run("answer", "Who?", "--database", url, "--pipeline", "zero-shot", "--backbone", "offline")
    ran.assert_refused(said)
    assert "secret" not in ran.err


class Shop:
    """A benchmark of SQLite, and copies of its database in DuckDB."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "shop"
        self.database = self.folder / "dev_databases" / "shop" / "shop.sqlite"
        self.copies = folder / "copies"
        self.url = f"duckdb:///{self.copies}/{{database}}.duckdb"
        self.database.parent.mkdir(parents=True)
        with closing(sqlite3.connect(self.database)) as connection:
            connection.executescript(f"{TABLE}; INSERT INTO item VALUES ('cup', 2.5), ('pot', 12)")
        self.ask("SELECT IIF(price > 10, `name`, 'cheap') FROM item")
        (folder / "shop.yaml").write_text(
            f'layout: bird\nfolder: {self.folder}\ntables: ""\nrevision: "1"\nrule: bird\ndialect: sqlite\n'
        )
        self.benchmark = ("--benchmark", str(folder / "shop.yaml"))

    def ask(self, *golds: str | list[str]) -> None:
        """Have a question with each of these golds, or lists of golds, numbered from 1."""
        questions = [
            {"question_id": place, "db_id": "shop", "question": "What?", "SQL": sql}
            for place, sql in enumerate(golds, 1)
        ]
        (self.folder / "dev.json").write_text(json.dumps(questions), encoding="utf-8")

    def load(self, *words: str) -> Ran:
        return run("benchmarks", "load", *self.benchmark, "--to", self.url, *words)

    def verify(self, *settings: str) -> Ran:
        """Verify the golds on the copies."""
        return run("benchmarks", "verify", *self.benchmark, "--set", f"benchmark.url={self.url}", *settings)


TRANSLATED = ("--set", "benchmark.transpile_gold=true")


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_gold_of_another_dialect_is_refused_or_translated_and_said_to_be(shop: Shop) -> None:
    loaded = shop.load("--json")
    assert loaded.code == 0, loaded.err
    assert [(each["copied"], each["rows"]) for each in loaded.json["databases"]] == [(True, 2)]
    shown = shop.load()
    assert "already there" in shown.out and f"benchmark.url={shop.url}" in shown.out
    shop.verify().assert_refused(
        "of the dialect sqlite, its databases are of duckdb", "benchmark.transpile_gold=true"
    )
    shop.verify("--set", 'benchmark.dialect=""').assert_refused("in which dialect is the gold SQL?")
    shop.verify("--set", "benchmark.dialect=postgresq").assert_refused('Did you mean "postgresql"')
    translated = shop.verify(*TRANSLATED, "--json")
    assert translated.code == 0, translated.err
    assert translated.json["counts"]["rows"] == 1
    said = "The gold SQL was translated from sqlite to duckdb by sqlglot; 1 of 1"
    assert translated.json["translated"].startswith(said)
    assert translated.json["engine"].startswith("DuckDB ")


def test_every_gold_of_a_question_is_translated(shop: Shop, tmp_path: Path) -> None:
    shop.load()
    shop.ask(["SELECT 3", "SELECT IIF(1, COUNT(*), 0) FROM item", "SELECT COUNT(price) / 4 FROM item"])
    settings = (*TRANSLATED, "--set", f"benchmark.url={shop.url}")
    answers = tmp_path / "answers.json"
    for right in ("SELECT 2", "SELECT 0"):
        answers.write_text(json.dumps({"1": right}), encoding="utf-8")
        scored = run("score", *shop.benchmark, "--predictions", str(answers), *settings, "--json")
        assert scored.json["correct"] == 1, scored.err
        remark = run("show", "latest", "1", "--json").json["results_remark"]
        assert remark.startswith(
            "The results differ, and the answer is right: the question has further gold SQL"
        )


def test_answers_are_translated_where_that_is_asked_for_and_counted(shop: Shop, tmp_path: Path) -> None:
    assert shop.load().code == 0
    answers = write_predictions(
        tmp_path / "a.jsonl", {"1": "SELECT IIF(price > 10, `name`, 'cheap') FROM item"}
    )
    given = ("--predictions", answers, "--json", "--set", f"benchmark.url={shop.url}", *TRANSLATED)
    translated = run("score", *shop.benchmark, *given, "--set", "benchmark.transpile_predictions=sqlite")
    assert translated.json["correct"] == 1 and len(translated.json["translations"]) == 2
    assert "1 answer was translated from sqlite by sqlglot" in translated.err
    assert "answers translated by sqlglot before they were scored" in translated.err
    assert translated.json["engine"].startswith("DuckDB ")


def test_copies_need_a_place_each_and_known_names(shop: Shop) -> None:
    load = ("benchmarks", "load", *shop.benchmark, "--to")
    one = run(*load, f"duckdb:///{shop.copies}/a.duckdb", "--databases", "shp")
    one.assert_refused('Did you mean "shop"')
    away = run(*load, "postgresql://ann:secret@127.0.0.1:1/{database}")
    away.assert_refused("Check the URL of --to")
    assert "secret" not in away.err


def test_translated_golds_with_another_result_than_on_sqlite_are_named(shop: Shop) -> None:
    shop.ask("SELECT count(*) / 4, 7 / 2 FROM item WHERE name LIKE 'C%'", "SELECT typeof(price) FROM item")
    assert shop.load().code == 0
    assert shop.verify(*TRANSLATED, "--json").json["differing_from_sqlite"] == ["2"]
    named = "1 translated gold with another result than on SQLite: 2"
    assert named in " ".join(shop.verify(*TRANSLATED).out.split())

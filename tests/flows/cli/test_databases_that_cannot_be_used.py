"""Databases that cannot be used: one message each, what, where and how to mend it, exit code 2, and no password."""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from tests.support import mariadb, postgres
from tests.support.in_process import run

PG, MY = "postgresql://ann:secret@127.0.0.1", f"mysql://ann:secret@{mariadb.HOST}"
TABLE = "CREATE TABLE item (name VARCHAR(9), price REAL)"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("CROSSCHECK_HOME", str(folder))
    return folder


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
        mariadb.execute(
            *(f"SET PASSWORD FOR {name}@'{host}' = PASSWORD('right')" for host in ("%", "localhost"))
        )
        yield url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"{PG}:1/shop", "Check host, port and whether the server runs"),
        (f"{MY}:1/shop", "Check host, port and whether the server runs"),
        (f"{PG}:5432x/shop", "Write it as postgresql://user@host:port/database"),
        (
            f"{PG}/shop?sslmode=verify-full&sslrootcert=/no/such/file",
            "Say how to encrypt at the end of the URL",
        ),
        (f"{PG}/shop?sslmode=sometimes", "sslmode"),
        (f"{MY}/shop?sslmode=sometimes", "Known are sslmode (disable, prefer"),
        (MY, "names no database"),
        ("postgressql://ann:secret@host/shop", 'Did you mean "postgresql://"'),
        ("oracle://ann:secret@host/shop", "Known: duckdb://"),
    ],
)
def test_a_url_that_cannot_be_used(url: str, said: str) -> None:
    _refused(url, said)


def test_a_role_a_database_or_rights_that_are_not_there(reader: str, with_password: str) -> None:
    role = reader.partition("//")[2].partition("@")[0]
    _refused(reader.replace(role, "nobody_here:secret"), 'role "nobody_here" does not exist')
    _refused(
        reader.replace(f"{role}@", f"{role}:secret@").rpartition("/")[0] + "/not_here",
        "/not_here: this is not there",
    )
    _refused(reader + "?schema=elsewhere", "has no tables that its role may read")
    _refused(with_password.replace("@", ":secret@"), "Check user and password")
    _refused(with_password, "Check user and password")
    _refused("postgresql://postgres@127.0.0.1" + reader[reader.rindex("/") :], "is a superuser")


def test_a_duckdb_file_that_is_none(tmp_path: Path) -> None:
    _refused(str(tmp_path / "gone.duckdb"), "this is not there")
    (tmp_path / "text.duckdb").write_text("no database", encoding="utf-8")
    _refused(str(tmp_path / "text.duckdb"), "cannot be opened by DuckDB")
    duckdb.connect(str(tmp_path / "empty.duckdb")).close()
    _refused(str(tmp_path / "empty.duckdb"), "has no tables")


def _refused(url: str, said: str) -> None:
    ran = run("answer", "Who?", "--database", url, "--pipeline", "zero-shot", "--backbone", "offline")
    assert ran.code == 2, (url, ran.err)
    assert said in ran.err, (url, ran.err)
    assert "secret" not in ran.err + ran.out
    assert "Traceback" not in ran.err and ran.err.count("crosscheck: ") == 1


@pytest.fixture
def shop(tmp_path: Path) -> tuple[Path, Path]:
    """Settings of a benchmark of SQLite, and the folder of its copies."""
    folder = tmp_path / "shop"
    (folder / "dev_databases" / "shop").mkdir(parents=True)
    with sqlite3.connect(folder / "dev_databases" / "shop" / "shop.sqlite") as connection:
        connection.executescript(f"{TABLE}; INSERT INTO item VALUES ('cup', 2.5), ('pot', 12)")
    connection.close()
    gold = "SELECT IIF(price > 10, `name`, 'cheap') FROM item"
    questions = [{"question_id": 1, "db_id": "shop", "question": "What?", "SQL": gold}]
    (folder / "dev.json").write_text(json.dumps(questions), encoding="utf-8")
    settings = tmp_path / "shop.yaml"
    settings.write_text(
        f'layout: bird\nfolder: {folder}\ntables: ""\nrevision: "1"\nrule: bird\ndialect: sqlite\n',
        encoding="utf-8",
    )
    return settings, tmp_path / "copies"


def test_gold_of_another_dialect_is_refused_or_translated_and_said_to_be(shop: tuple[Path, Path]) -> None:
    settings, copies = shop
    to = f"duckdb:///{copies}/{{database}}.duckdb"
    loaded = run("benchmarks", "load", "--benchmark", str(settings), "--to", to, "--json")
    assert loaded.code == 0, loaded.err
    assert [(each["copied"], each["rows"]) for each in loaded.json["databases"]] == [(True, 2)]
    shown = run("benchmarks", "load", "--benchmark", str(settings), "--to", to)
    assert "already there" in shown.out and f"benchmark.url={to}" in shown.out
    there = ("--benchmark", str(settings), "--set", f"benchmark.url={to}")
    refused = run("benchmarks", "verify", *there)
    assert refused.code == 2
    assert "of the dialect sqlite, its databases are of duckdb" in refused.err
    assert "benchmark.transpile_gold=true" in refused.err
    unknown = run("benchmarks", "verify", *there, "--set", 'benchmark.dialect=""')
    assert unknown.code == 2 and "in which dialect is the gold SQL?" in unknown.err
    misspelt = run("benchmarks", "verify", *there, "--set", "benchmark.dialect=postgresq")
    assert misspelt.code == 2 and 'Did you mean "postgresql"' in misspelt.err
    translated = run("benchmarks", "verify", *there, "--set", "benchmark.transpile_gold=true", "--json")
    assert translated.code == 0, translated.err
    assert translated.json["counts"]["rows"] == 1
    assert translated.json["translated"].startswith(
        "The gold SQL was translated from sqlite to duckdb by sqlglot; 1 of 1"
    )
    assert translated.json["engine"].startswith("DuckDB ")


def test_answers_are_translated_where_that_is_asked_for_and_counted(
    shop: tuple[Path, Path], tmp_path: Path
) -> None:
    settings, copies = shop
    to = f"duckdb:///{copies}/{{database}}.duckdb"
    assert run("benchmarks", "load", "--benchmark", str(settings), "--to", to).code == 0
    answers = tmp_path / "answers.csv"
    answers.write_text(
        "question_id,sql\n1,\"SELECT IIF(price > 10, `name`, 'cheap') FROM item\"\n", encoding="utf-8"
    )
    given = ["score", "--benchmark", str(settings), "--predictions", str(answers), "--json"]
    given += ["--set", f"benchmark.url={to}", "--set", "benchmark.transpile_gold=true"]
    translated = run(*given, "--set", "benchmark.transpile_predictions=sqlite")
    assert translated.json["correct"] == 1
    assert len(translated.json["translations"]) == 2
    assert "1 answer was translated from sqlite by sqlglot" in translated.err
    assert "answers translated by sqlglot before they were scored" in translated.err
    assert translated.json["engine"].startswith("DuckDB ")


def test_copies_need_a_place_each_and_known_names(shop: tuple[Path, Path]) -> None:
    settings, copies = shop
    wrong = run(
        "benchmarks",
        "load",
        "--benchmark",
        str(settings),
        "--to",
        f"duckdb:///{copies}/a.duckdb",
        "--databases",
        "shp",
    )
    assert wrong.code == 2 and 'Did you mean "shop"' in wrong.err
    refused = run(
        "benchmarks",
        "load",
        "--benchmark",
        str(settings),
        "--to",
        "postgresql://ann:secret@127.0.0.1:1/{database}",
    )
    assert refused.code == 2 and "secret" not in refused.err
    assert "Check the URL of --to" in refused.err


def test_a_hostile_database_ends_a_load_in_one_message_and_nothing_is_copied(shop: tuple[Path, Path]) -> None:
    settings, copies = shop
    (path,) = settings.parent.rglob("shop.sqlite")
    connection = sqlite3.connect(path)
    connection.executescript("ALTER TABLE item ADD COLUMN b AS (zeroblob(900000000))")
    connection.close()
    to = f"duckdb:///{copies}/{{database}}.duckdb"
    refused = run("benchmarks", "load", "--benchmark", str(settings), "--to", to)
    assert refused.code == 2 and refused.err.count("SQLite cannot read") == 1
    assert "Traceback" not in refused.err and not copies.exists()


def test_translated_golds_with_another_result_than_on_sqlite_are_named(shop: tuple[Path, Path]) -> None:
    settings, copies = shop
    golds = ("SELECT count(*) / 4, 7 / 2 FROM item WHERE name LIKE 'C%'", "SELECT typeof(price) FROM item")
    questions = [
        {"question_id": place, "db_id": "shop", "question": "?", "SQL": sql}
        for place, sql in enumerate(golds)
    ]
    (settings.parent / "shop" / "dev.json").write_text(json.dumps(questions), encoding="utf-8")
    to = f"duckdb:///{copies}/{{database}}.duckdb"
    assert run("benchmarks", "load", "--benchmark", str(settings), "--to", to).code == 0
    verify = ["benchmarks", "verify", "--benchmark", str(settings), "--set", f"benchmark.url={to}"]
    verify += ["--set", "benchmark.transpile_gold=true"]
    assert run(*verify, "--json").json["differing_from_sqlite"] == ["1"]
    assert "1 translated gold with another result than on SQLite: 1" in " ".join(run(*verify).out.split())

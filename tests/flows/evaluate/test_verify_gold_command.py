"""`crosscheck benchmarks verify`: every gold of a benchmark, run for real."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Ran
from tests.support.in_process import run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    monkeypatch.setenv("CROSSCHECK_HOME", str(folder))
    return folder


def verify(settings_file: str, *words: str) -> Ran:
    return run("benchmarks", "verify", "--benchmark", settings_file, *words)


GOLDS = {
    "1": ("shop", "SELECT name FROM item"),
    "2": ("shop", "SELECT name FROM item WHERE price > 100"),
    "3": ("shop", "SELECT nme FROM item"),
    "4": ("shop", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"),
    "5": ("gone", "SELECT 1"),
    "6": ("broken", "SELECT 1"),
}


@pytest.fixture
def settings_file(tmp_path: Path) -> str:
    """Path of the settings of a benchmark with every kind of gold."""
    folder = tmp_path / "bench"
    (folder / "dbs" / "shop").mkdir(parents=True)
    connection = sqlite3.connect(folder / "dbs" / "shop" / "shop.sqlite")
    connection.executescript("CREATE TABLE item (name TEXT, price REAL); INSERT INTO item VALUES ('cup', 2)")
    connection.close()
    (folder / "dbs" / "broken").mkdir()
    (folder / "dbs" / "broken" / "broken.sqlite").write_text("version https://git-lfs.github.com/spec/v1")
    questions = [
        {"question_id": int(key), "db_id": database, "question": f"question {key}", "SQL": sql}
        for key, (database, sql) in GOLDS.items()
    ]
    (folder / "dev.json").write_text(json.dumps(questions), encoding="utf-8")
    (folder / "train.json").write_text(json.dumps(questions[:2]), encoding="utf-8")
    settings = tmp_path / "bench.yaml"
    settings.write_text(
        f'layout: bird\nfolder: {folder}\ntables: ""\ndatabases: dbs\ntrain: train.json\nrevision: "1"\n'
        "rule: bird\ntimeout_s: 0.5\nquarantine: [2]\n",
        encoding="utf-8",
    )
    return str(settings)


def test_every_gold_is_classified_and_listed_and_several_files_are_all_named(settings_file: str) -> None:
    ran = verify(settings_file, "--json")
    assert ran.code == 3, "a database cannot be read"
    found = ran.json
    assert found["counts"] == {
        "rows": 1, "empty": 1, "error": 1, "timeout": 1, "too_large": 0, "missing_database": 1,
        "unreadable_database": 1, "slow": 0,
    }  # fmt: skip
    assert [check["id"] for kind in ("empty", "timeout") for check in found[kind]] == ["2", "4"]
    failed = [
        (check["id"], check["error"].partition(":")[0])
        for kind in ("error", "unreadable_database")
        for check in found[kind]
    ]
    assert failed == [("3", "no such column"), ("6", 'Database "broken"')]
    assert [(check["id"], check["seconds"]) for check in found["missing_database"]] == [("5", None)]
    assert found["suggested_quarantine"] == ["2", "3", "4"], "what fails, and what is there already"
    folder = Path(settings_file).parent / "bench"
    more = [{"question_id": 9, "db_id": "shop", "question": "another", "SQL": "SELECT name FROM item"}]
    (folder / "more.json").write_text(json.dumps(more), encoding="utf-8")
    files = "benchmark.questions=[dev.json, more.json]"
    ran = verify(settings_file, "--set", files)
    assert "2 of 7 gold queries fail or exceed a limit, 1 could not be run" in ran.out
    assert "Not run: the database cannot be read (1)" in ran.out
    assert f"{folder / 'dev.json'}, {folder / 'more.json'}" in ran.out


def test_of_a_question_with_several_golds_all_are_run_and_one_that_runs_is_enough(settings_file: str) -> None:
    questions = Path(settings_file).parent / "bench" / "dev.json"
    right, wrong = "SELECT name FROM item", "SELECT nme FROM item"
    several = [
        {"question_id": key, "db_id": "shop", "question": f"question {key}", "SQL": sqls}
        for key, sqls in {"1": [wrong, right], "2": [right, wrong], "3": [wrong, wrong + " LIMIT 1"]}.items()
    ]

    def verified() -> Any:
        questions.write_text(json.dumps(several), encoding="utf-8")
        return verify(settings_file, "--set", "benchmark.quarantine=[]", "--json")

    found = verified().json
    assert [check["id"] for check in found["error"]] == ["1", "2", "3", "3"]
    assert found["suggested_quarantine"] == ["3"]
    assert found["golds"] == 6
    several.pop()
    assert "One gold query of every question runs: no question has to be left out." in verified().err


def test_the_printed_quarantine_is_read_back_by_the_settings(settings_file: str) -> None:
    ran = verify(settings_file)
    line = next(line for line in ran.out.splitlines() if line.startswith("quarantine:"))
    path = Path(settings_file)
    path.write_text(path.read_text(encoding="utf-8").replace("quarantine: [2]", line), encoding="utf-8")
    assert verify(settings_file, "--json").json["suggested_quarantine"] == ["2", "3", "4"]


def test_only_strict_makes_faults_an_exit_code_and_slow_ones_are_called_slow_though_they_finish(
    settings_file: str,
) -> None:
    path = Path(settings_file).parent / "bench/dbs/broken/broken.sqlite"
    shutil.copy(path.parents[1] / "shop/shop.sqlite", path)
    assert verify(settings_file).code == 0
    assert verify(settings_file, "--strict").code == 1
    assert verify(settings_file, "--split", "train", "--strict").code == 0
    found = verify(settings_file, "--slow", "0", "--json").json
    assert sorted(check["id"] for check in found["slow"]) == ["1", "2", "6"]
    assert found["counts"]["rows"] == 2


def test_a_file_of_golds_runs_on_the_benchmarks_databases(settings_file: str, tmp_path: Path) -> None:
    file = tmp_path / "gold.sql"
    file.write_text(
        "SELECT count(*) FROM item\tshop\n\nSELECT x\tshop\nSELECT 1\tnowhere\n", encoding="utf-8"
    )
    found = verify(settings_file, "--gold", str(file), "--json").json
    assert (found["golds"], found["counts"]["rows"], found["counts"]["missing_database"]) == (3, 1, 1)
    assert found["suggested_quarantine"] == ["2"], "its position in the file, not a question of the benchmark"
    printed = verify(settings_file, "--gold", str(file)).out
    assert "positions" in printed


def test_a_file_of_the_benchmarks_own_golds_names_its_questions(settings_file: str, tmp_path: Path) -> None:
    file = tmp_path / "gold.sql"
    lines = [f"{sql}\t{database}" for database, sql in GOLDS.values()]
    file.write_text("\n".join(lines), encoding="utf-8")
    found = verify(settings_file, "--gold", str(file), "--json").json
    assert found["suggested_quarantine"] == ["2", "3", "4"], "ids of questions, which count from 1 here"
    file.write_text("\n".join(lines).replace("\tgone", "\tshop"), encoding="utf-8")
    printed = verify(settings_file, "--gold", str(file)).out
    assert "positions" in printed, "one gold is meant for another database than the question's"


@pytest.mark.parametrize(("arguments", "said"), [
    (("--gold", "nowhere.sql"), "nowhere.sql cannot be read"),
    (("--gold", "GOLD"), "line 2: must be a SQL, a tab and the name of its database"),
    (("--set", "backbone.model=x"), "only benchmark.*"),
    (("--set", "benchmark.train=null", "--split", "train"), "--gold FILE"),
])  # fmt: skip
def test_a_users_error_is_one_message(
    settings_file: str, tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    file = tmp_path / "gold.sql"
    file.write_text("SELECT 1\tshop\nSELECT 2\n", encoding="utf-8")
    given = (str(file) if argument == "GOLD" else argument for argument in arguments)
    verify(settings_file, *given).assert_refused(said)


def test_the_demo_has_no_faults(built_demo: Path, home: Path) -> None:
    shutil.copytree(built_demo, home)
    found = run("benchmarks", "verify", "--json").json
    assert found["counts"]["rows"] == found["golds"] > 100


@pytest.mark.slow
def test_spiders_training_golds_are_as_they_are_known_to_be(shared_data: Path) -> None:
    benchmark = ("--benchmark", "spider-dev", "--split", "train", "--data", str(shared_data))
    found = run("benchmarks", "verify", *benchmark, "--no-undecided", "--json").json
    assert found["golds"] == 8659
    assert {name: found["counts"][name] for name in ("rows", "empty", "error", "timeout", "missing_database")} == {
        "rows": 6944, "empty": 1616, "error": 3, "timeout": 0, "missing_database": 96,
    }  # fmt: skip
    assert len(found["empty"]) == 1616

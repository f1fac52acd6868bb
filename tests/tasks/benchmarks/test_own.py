"""A benchmark of one's own from pairs of question and SQL."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
import yaml

from tasks.benchmarks.benchmark import Benchmark, load_benchmark
from tasks.benchmarks.custom import make_benchmark
from tasks.core.errors import ConfigurationError, DataError
from tasks.settings.load import load_benchmark_settings
from tests.support import postgres
from tests.support.command_line import Ran
from tests.support.in_process import run
from tests.tasks.benchmarks.conftest import Files

CSV = """Question,Gold SQL,evidence
How many?,"SELECT COUNT(*), 1 FROM Customers",all of them
Who?,SELECT Name FROM Customers,
"""


Pairs = Callable[..., Path]


@pytest.fixture
def pairs(tmp_path: Path) -> Callable[..., Path]:
    def write(content: Any = CSV, name: str = "pairs.csv") -> Path:
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


def loaded(file: Path) -> Benchmark:
    settings = load_benchmark_settings(file.parent, str(file))
    return load_benchmark(settings, data=file.parent, home=file.parent, conf=file.parent)


def init(pairs: Path, database: object, folder: Path, *options: str) -> Ran:
    given = ("--questions", str(pairs), "--database", str(database), "--output", str(folder))
    return run("benchmarks", "init", *given, *options)


def items(path: Path) -> str:
    """Make a DuckDB file with one table; return its name."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE item (name TEXT)")
    return str(path)


def test_the_command_makes_a_benchmark_that_loads(bird: Files, pairs: Pairs, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    ran = init(pairs(), bird.database, folder)
    assert ran.code == 0, ran.err
    assert f"crosscheck evaluate --benchmark {folder / 'mine.yaml'}" in ran.out
    assert ran.out.startswith(f"{folder} has 2 questions on 1 database.\n")
    benchmark = loaded(folder / "mine.yaml")
    assert [(q.id, q.text, q.evidence, q.database_id) for q in benchmark.questions] == [
        ("0", "How many?", "all of them", "shop"),
        ("1", "Who?", "", "shop"),
    ]
    assert benchmark.gold["0"] == "SELECT COUNT(*), 1 FROM Customers"
    assert (benchmark.missing, benchmark.notes) == ({}, ())
    again = init(pairs(), bird.database, folder)
    assert (again.code, "not empty" in again.err) == (2, True)


@pytest.mark.parametrize("name", ["nope.sqlite", "nope.duckdb"])
def test_a_database_that_is_missing_is_named_without_options_of_other_commands(
    name: str, pairs: Pairs, tmp_path: Path
) -> None:
    place = str(tmp_path / name)
    ran = init(pairs(), place, tmp_path / "mine")
    assert ran.code == 2
    assert place in ran.err and "does not exist. Check the path." in ran.err
    assert "--data " not in ran.err


def test_a_database_without_tables_is_refused_and_nothing_is_written(pairs: Pairs, tmp_path: Path) -> None:
    (tmp_path / "empty.sqlite").touch()
    ran = init(pairs(), tmp_path / "empty.sqlite", tmp_path / "mine")
    assert ran.code == 2 and "has no tables" in ran.err
    assert not (tmp_path / "mine").exists()


def test_a_spreadsheet_may_separate_columns_by_semicolons(bird: Files, pairs: Pairs, tmp_path: Path) -> None:
    file = pairs('\ufeffquestion;sql\n"How many; all?";"SELECT 1, 2"\n')
    made = make_benchmark(file, (str(bird.database),), tmp_path / "mine", "bird")
    benchmark = loaded(made.file)
    assert benchmark.questions[0].text == "How many; all?"
    assert benchmark.gold["0"] == "SELECT 1, 2"


def test_a_benchmark_that_was_made_can_be_moved(
    bird: Files, pairs: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_benchmark(pairs(), (str(bird.database),), tmp_path / "mine", "bird")
    assert str(tmp_path) not in made.file.read_text(encoding="utf-8")
    (tmp_path / "sent").mkdir()
    moved = (tmp_path / "mine").rename(tmp_path / "sent" / "mine")
    monkeypatch.chdir(tmp_path / "sent")
    for named in (moved / "mine.yaml", Path("mine/mine.yaml")):
        assert loaded(named).missing == {}


def test_json_lines_may_name_ids_and_a_database(bird: Files, pairs: Pairs, tmp_path: Path) -> None:
    other = tmp_path / "mall.db"
    other.write_bytes(bird.database.read_bytes())
    item = {"question_id": "a1", "db_id": "mall", "question": "How many?", "query": "SELECT 1"}
    file = pairs(item, "pairs.jsonl")
    made = make_benchmark(file, (str(bird.database), str(other)), tmp_path / "mine", "strict")
    assert (made.questions, made.databases) == (1, 2)
    assert yaml.safe_load(made.file.read_text(encoding="utf-8"))["rule"] == "strict"
    assert loaded(made.file).questions[0].database_id == "mall"


TWICE = 'p.csv, line 3: the question id "7" is also that of line 2. Give each question an id of its own'


@pytest.mark.parametrize(("name", "content", "said"), [
    ("p.csv", "text,answer\na,b\n", "no question and no sql or query"),
    ("p.csv", "question,sql\na,SELECT 1,2\n", "line 2: 3 cells"),
    ("p.csv", "question,sql,db_id\na,SELECT 1,mall\n", '"mall", which is not given'),
    ("p.csv", "question,sql,id\na,SELECT 1,7\nb,SELECT 2,7\n", TWICE),
    ("p.json", [{"id": 7, "question": "a", "sql": "b"}] * 2, "item 1 (from 0)"),
    ("p.csv", 'question,sql\na,SELECT 1\nb,""\n', "p.csv, line 3: the cell sql is empty. Fill in"),
    ("p.csv", 'question,sql,db_id\n"","",shop\n', "line 2: the cells question and sql are empty"),
    ("p.jsonl", '{"question": "a", "sql": null}', "line 1: the cell sql is empty"),
    ("p.jsonl", '\n{"question": "a"}', "line 2: there is no sql or query"),
    ("p.csv", "question,sql\n", "holds no question"),
    ("p.txt", "a", "must end in .csv"),
    ("p.jsonl", "{", "line 1: not JSON"),
])  # fmt: skip
def test_bad_pairs_are_one_message_and_nothing_is_written(
    bird: Files, pairs: Pairs, tmp_path: Path, name: str, content: Any, said: str
) -> None:
    with pytest.raises(DataError) as caught:
        make_benchmark(pairs(content, name), (str(bird.database),), tmp_path / "mine", "bird")
    assert said in str(caught.value)
    assert not (tmp_path / "mine").exists()


def test_two_databases_of_one_name_are_refused(bird: Files, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match='"shop" is also the name'):
        make_benchmark(tmp_path / "p.csv", (str(bird.database), str(bird.database)), tmp_path / "m", "bird")


def test_databases_of_another_engine_stay_where_they_are(pairs: Pairs, tmp_path: Path) -> None:
    file = pairs("db_id,question,sql\nmall,How many?,SELECT count(*) FROM item\n")
    databases = (items(tmp_path / "shop.duckdb"), items(tmp_path / "mall.duckdb"))
    made = make_benchmark(file, databases, tmp_path / "mine", "bird")
    settings = yaml.safe_load(made.file.read_text(encoding="utf-8"))
    assert (settings["url"], settings["dialect"]) == (f"duckdb:///{tmp_path}/{{database}}.duckdb", "duckdb")
    assert loaded(made.file).missing == {}
    (tmp_path / "far").mkdir()
    further = (*databases, items(tmp_path / "far" / "pub.duckdb"))
    with pytest.raises(ConfigurationError, match="differ in more than the database's name"):
        make_benchmark(file, further, tmp_path / "other", "bird")


def test_databases_of_a_server_are_named_by_its_url(pairs: Pairs, tmp_path: Path) -> None:
    file = pairs("question,sql\nHow many?,SELECT count(*) FROM item\n")
    with postgres.new_reader("CREATE TABLE item (name TEXT)") as url:
        made = make_benchmark(file, (url,), tmp_path / "mine", "bird")
        settings = yaml.safe_load(made.file.read_text(encoding="utf-8"))
        assert settings["url"] == url.rpartition("/")[0] + "/{database}"
        assert loaded(made.file).missing == {}


@pytest.mark.parametrize(("record", "options", "gold"), [
    ({"query": "SELECT 1", "sql": {"select": []}}, (), ("SELECT 1",)),
    ({"sql": ["SELECT 1", "SELECT 2"]}, (), ("SELECT 1", "SELECT 2")),
    ({"sql": "SELECT 1", "Reviewed SQL": "SELECT 2"}, ("--sql-column", "Reviewed SQL"), ("SELECT 2",)),
])  # fmt: skip
def test_the_sql_is_a_text_a_list_or_the_column_that_is_named(
    bird: Files, pairs: Pairs, tmp_path: Path, record: Any, options: tuple[str, ...], gold: tuple[str, ...]
) -> None:
    file, folder = pairs([{"question": "?", "db_id": "shop", **record}], "pairs.json"), tmp_path / "mine"
    ran = init(file, bird.database, folder, *options)
    assert ran.code == 0, ran.err
    benchmark = loaded(folder / "mine.yaml")
    assert (benchmark.gold["0"], *benchmark.further_gold.get("0", ())) == gold

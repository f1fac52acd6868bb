"""Questions, gold, demonstrations and schemas are read from the files as published; bad files are named."""

import hashlib
import json
import shutil
from pathlib import Path

import duckdb
import pytest

from tasks.benchmarks.benchmark import load_benchmark
from tasks.core.errors import DataError
from tasks.core.records import Demonstration, Question
from tasks.settings.load import load_benchmark_settings
from tests.tasks.benchmarks.conftest import SHOP_ENTRY

CONF = Path(__file__).parents[3] / "conf"


def test_bird_questions_keep_their_ids_evidence_and_difficulty(bird):
    benchmark = bird.load()
    assert benchmark.questions == (
        Question("7", "How many customers are there?", "shop", "customers are rows", "simple"),
        Question("9", "Who lives in 'Bath'?", "shop", "", "moderate"),
    )
    assert benchmark.gold == {
        "7": "SELECT COUNT(*) FROM Customers",
        "9": "SELECT Name FROM Customers WHERE town = 'Bath'",
    }
    assert benchmark.digest == hashlib.sha256((bird.folder / "dev.json").read_bytes()).hexdigest()
    assert benchmark.missing == {}
    assert benchmark.database_path("shop") == bird.database
    assert bird.load(folder=str(bird.folder)).questions == benchmark.questions
    (bird.folder / "dev.json").write_bytes(b"\xef\xbb\xbf" + (bird.folder / "dev.json").read_bytes())
    assert bird.load().questions == benchmark.questions, "a byte order mark does not matter"


def test_a_spider_question_is_known_by_its_position_and_has_no_difficulty_in_the_file(spider):
    benchmark = spider.load()
    assert [question.id for question in benchmark.questions] == ["0", "1"]
    assert [question.difficulty for question in benchmark.questions] == [None, None]
    assert benchmark.gold["0"] == "SELECT count(*) FROM orders"


@pytest.mark.parametrize("layout", ["bird", "spider"])
@pytest.mark.parametrize("key", ["SQL", "query"])
def test_own_data_may_use_either_key_for_its_sql(make, layout, key):
    files = make(layout)
    files.write("dev.json", [{"db_id": "shop", "question": "How many?", key: "SELECT 1"}])
    assert files.load().gold == {"0": "SELECT 1"}


def test_questions_on_a_missing_database_are_kept_and_counted(bird):
    extra = [{"question_id": n, "db_id": "gone", "question": f"Q{n}?", "SQL": "SELECT 1"} for n in (1, 2)]
    bird.write("dev.json", [*json.loads((bird.folder / "dev.json").read_text()), *extra])
    benchmark = bird.load()
    assert len(benchmark.questions) == 4
    assert benchmark.missing == {"gone": 2}


GOOD = {"question_id": 3, "db_id": "shop", "question": "How many?", "SQL": "SELECT 1"}


@pytest.mark.parametrize(("change", "said"), [
    ({"question": None}, ["item 1 (from 0), question_id 4", '"question" is missing']),
    ({"SQL": None}, ["item 1 (from 0), question_id 4", '"SQL" or "query" is missing']),
    ({"SQL": "  "}, ['"SQL" is empty']),
    ({"SQL": {"select": []}}, ['"SQL" must be a text, not dict']),
    ({"db_id": None}, ['"db_id" is missing']),
    ({"db_id": "../shop"}, ['"db_id" must be the name of a database, not a path']),
    ({"evidence": ["a"]}, ['"evidence" must be a text, not list']),
    ({"question_id": 3, "question": "Another?"}, ['the id "3" already belongs to item 0']),
    ({"question_id": True}, ['"question_id" must be a whole number or a text']),
    ({"question_id": 1.5}, ['"question_id" must be a whole number or a text']),
])  # fmt: skip
def test_a_faulty_question_is_named_by_file_position_and_key(bird, change, said):
    path = bird.write("dev.json", [GOOD, {**GOOD, "question_id": 4, **change}])
    with pytest.raises(DataError) as caught:
        bird.load()
    for part in (str(path), *said):
        assert part in str(caught.value)


@pytest.mark.parametrize(("name", "content", "said"), [
    ("dev.json", b'[{"question": }]', "is not JSON: Expecting value in line 1, column 15"),
    ("dev.json", b"{}", "must hold a list of objects, not dict"),
    ("dev.json", b"[3]", "item 0 (from 0): must be an object, not int"),
    ("dev.json", b"[]", "holds no question"),
    ("dev.json", b'[{"question": "caf\xe9"}]', "is not UTF-8: byte 18 is 0xe9"),
    ("dev_tables.json", b'[{"db_id": "shop"}]', '"shop"'),
    ("dev_tables.json", json.dumps([SHOP_ENTRY] * 2).encode(), "twice"),
])  # fmt: skip
def test_a_file_of_another_form_is_named(bird, name, content, said):
    (bird.folder / name).write_bytes(content)
    with pytest.raises(DataError) as caught:
        bird.load()
    assert str(bird.folder / name) in str(caught.value)
    assert said in str(caught.value)


def test_a_missing_folder_is_explained_with_where_to_get_it_and_how_to_point_to_it(bird):
    shutil.rmtree(bird.folder)
    with pytest.raises(DataError) as caught:
        bird.load(source="https://example.org/own")
    for part in (
        f"there is no folder {bird.folder}",
        "dev.json, dev_tables.json, dev_databases",
        "https://example.org/own",
        "--data FOLDER or CROSSCHECK_DATA",
        '"own"',
    ):
        assert part in str(caught.value)


@pytest.mark.parametrize("lost", ["dev.json", "dev_tables.json", "dev_databases"])
def test_a_missing_part_of_the_folder_is_named(bird, lost):
    (bird.folder / lost).rename(bird.folder / "elsewhere")
    with pytest.raises(DataError, match=f"own: .* lacks {lost}\\."):
        bird.load()


def test_a_benchmark_without_a_tables_file_says_so_with_an_empty_name(bird):
    (bird.folder / "dev_tables.json").unlink()
    assert bird.load(tables="").schemas == {}


def test_schemas_come_from_the_tables_file_with_their_foreign_keys(bird):
    schema = bird.load().schemas["shop"]
    assert [str(name) for name in schema.column_names][:2] == ["Customers.id", "Customers.Name"]
    assert [(key.table, key.columns, key.parent) for key in schema.foreign_keys] == [
        ("orders", ("customer",), "Customers")
    ]


TRAIN = [
    {"db_id": "farm", "question": "How many cows?", "SQL": "SELECT COUNT(*) FROM cow", "evidence": "a hint"},
    {"db_id": "farm", "question": "How many pigs?", "SQL": "SELECT COUNT(*) FROM pig", "evidence": None},
]
POOL = (
    Demonstration("How many cows?", "SELECT COUNT(*) FROM cow", "farm", "a hint"),
    Demonstration("How many pigs?", "SELECT COUNT(*) FROM pig", "farm", ""),
)


def test_demonstrations_are_read_from_json(bird):
    bird.write("train.json", TRAIN)
    assert bird.load(train="train.json").demonstrations == POOL


def write_parquet(bird, rows):
    source = bird.write("rows.json", rows)
    path = bird.folder / "train.parquet"
    duckdb.sql(f"COPY (SELECT * FROM read_json('{source}')) TO '{path}' (FORMAT parquet)")
    return path


def test_demonstrations_are_read_from_parquet_with_the_names_in_its_ddl(bird):
    ddl = (
        'CREATE TABLE cow (id INTEGER, "milk yield" REAL);\n'
        "CREATE TRIGGER x AFTER INSERT ON cow BEGIN SELECT 1; END;"
    )
    write_parquet(bird, [{**item, "schema": ddl} for item in TRAIN])
    benchmark = bird.load(train="train.parquet")
    assert benchmark.demonstrations == POOL
    assert benchmark.schema_names["farm"] == ("cow", "id", "milk yield")
    assert benchmark.schema_names["shop"][:3] == ("Customers", "orders", "id")


def test_a_faulty_parquet_file_is_named(bird):
    path = write_parquet(bird, [TRAIN[0], {**TRAIN[1], "SQL": None}])
    with pytest.raises(DataError) as caught:
        _ = bird.load(train="train.parquet").demonstrations
    assert f'{path}, item 1 (from 0): the key "SQL" or "query" is missing' in str(caught.value)
    path.write_text("[]")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        _ = bird.load(train="train.parquet").demonstrations


def test_missing_training_questions_stop_only_who_asks_for_them(bird):
    assert bird.load().demonstrations == ()
    benchmark = bird.load(train="train.json")
    assert len(benchmark.questions) == 2
    with pytest.raises(DataError, match=r"pipeline\.demonstrations\.k=0"):
        _ = benchmark.demonstrations


def test_missing_published_descriptions_are_only_noted(bird):
    benchmark = bird.load(column_descriptions="column_meaning.json")
    (note,) = benchmark.notes
    assert "column_meaning.json" in note
    assert benchmark.published_descriptions == {}


@pytest.mark.parametrize(("name", "questions", "missing", "demonstrations", "grades"), [
    ("bird-dev", 1534, 1405, 9428, {"simple": 925, "moderate": 464, "challenging": 145}),
    ("spider-dev", 1034, 62, 7000, {None: 1034}),
])  # fmt: skip
def test_the_real_benchmarks_load_whole(shared_data, home, name, questions, missing, demonstrations, grades):
    benchmark = load_benchmark(load_benchmark_settings(CONF, name), data=shared_data, home=home, conf=CONF)
    assert len(benchmark.questions) == len(benchmark.gold) == questions
    assert sum(benchmark.missing.values()) == missing
    assert len(benchmark.demonstrations) == demonstrations
    found = [question.difficulty for question in benchmark.questions]
    assert {grade: found.count(grade) for grade in set(found)} == grades
    assert {question.database_id for question in benchmark.questions} <= set(benchmark.schemas)
    assert {example.database_id for example in benchmark.demonstrations} <= set(benchmark.schema_names)

"""Column descriptions survive their files' encodings, and which source wins is settled."""

import re
from pathlib import Path

import pytest

from tasks.benchmarks.benchmark import load_benchmark
from tasks.benchmarks.databases import (
    column_descriptions,
    generated_descriptions,
    open_benchmark_database,
)
from tasks.benchmarks.descriptions import (
    GeneratedColumn,
    clean,
    decode,
    generated_path,
    read_description_files,
    read_generated,
    write_generated,
)
from tasks.core.errors import DataError
from tasks.core.files import file_digest
from tasks.database.schema import ColumnDescription
from tasks.settings.load import load_benchmark_settings
from tests.support.pairs import read_pairs

PAIRS = read_pairs(Path(__file__).parent / "fixtures" / "clean.txt")
HEADER = "original_column_name,column_name,column_description,data_format,value_description\r\n"
TOWN = HEADER + "town,,where the customer lives – or lived,text,Bath • Ayr\r\n"


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.title for pair in PAIRS])
def test_a_published_description_becomes_one_plain_line(pair):
    assert clean(pair.given) == pair.expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_a_description_file_reads_alike_in_every_encoding(bird, encoding):
    path = bird.describe("customers.csv", TOWN.encode(encoding))
    assert read_description_files(path.parent) == {
        ("customers", "town"): ColumnDescription("where the customer lives – or lived", "Bath • Ayr")
    }


@pytest.mark.parametrize(
    ("file", "content", "read"),
    [
        (
            "CUSTOMERS .CSV",
            HEADER + " Town ,x, a place ,text, \r\n",
            {("customers", "town"): ("a place", "")},
        ),
        (
            "orders.csv",
            "Original Column Name,Column-Description,Value Description\ntotal,money,EUR\n",
            {("orders", "total"): ("money", "EUR")},
        ),
        (
            "orders.csv",
            HEADER + 'total,,"the\nsum",real,"a\r\n b"\r\nid\r\n\r\n',
            {("orders", "total"): ("the sum", "a b"), ("orders", "id"): ("", "")},
        ),
        (
            "orders.csv",
            HEADER + "A2,district name,,text,\r\nuser_id,User Id,user id,integer,\r\n",
            {("orders", "a2"): ("district name", ""), ("orders", "user_id"): ("", "")},
        ),
        ("customers.csv", "", {}),
    ],
    ids=[
        "names in any case and with blanks",
        "other headers",
        "lines within a cell and short rows",
        "a long name for a description unless it only repeats the name",
        "empty",
    ],
)
def test_a_file_is_read_however_it_is_written(bird, file, content, read):
    bird.describe("._customers.csv", b"\x00\x05\x16\x07")
    bird.describe("readme.txt", b"hello")
    path = bird.describe(file, content.encode())
    assert read_description_files(path.parent) == {
        key: ColumnDescription(*texts) for key, texts in read.items()
    }


def test_a_stray_byte_in_utf8_leaves_the_rest_alone():
    assert decode("é – ".encode() + b"\x95 caf\xe9" + " ü".encode()) == "é – • café ü"
    assert decode(b"\x81") == "\ufffd"


def test_a_csv_without_a_column_of_names_is_refused_with_its_first_line(bird):
    path = bird.describe("customers.csv", b"a,b\n1,2\n")
    with pytest.raises(DataError) as caught:
        read_description_files(path.parent)
    for said in (str(path), "original_column_name", "a, b"):
        assert said in str(caught.value)


def test_published_sentences_win_and_values_come_from_the_csv(bird):
    bird.describe("Customers.csv", (HEADER + "town,,csv town,,csv values\r\nName,,csv name,,\r\n").encode())
    bird.write("meaning.json", {"shop|customers|TOWN": "# 'published town'", "shop|orders|total": "#money"})
    benchmark = bird.load(column_descriptions="meaning.json")
    assert column_descriptions(benchmark, "shop") == {
        ("customers", "town"): ColumnDescription("published town", "csv values"),
        ("customers", "name"): ColumnDescription("csv name", ""),
        ("orders", "total"): ColumnDescription("money", ""),
    }


@pytest.mark.parametrize("content", [{"shop|town": "#x"}, {"shop|customers|town": 3}, ["x"]])
def test_a_faulty_file_of_published_descriptions_is_named(bird, content):
    path = bird.write("meaning.json", content)
    with pytest.raises(DataError, match=path.name):
        open_benchmark_database(bird.load(column_descriptions="meaning.json"), "shop", 3)


def test_an_opened_database_has_the_descriptions_and_keys_of_the_benchmark(bird):
    bird.describe("customers.csv", TOWN.encode())
    schema = open_benchmark_database(bird.load(), "shop", 1).schema
    town = next(column for column in schema.table("Customers").columns if column.name == "town")
    assert (town.description, town.value_description) == ("where the customer lives – or lived", "Bath • Ayr")
    assert town.samples == ("Bath",)
    assert [(key.table, key.parent) for key in schema.foreign_keys] == [("orders", "Customers")]


def generated(table, column, **more):
    written = {"description": f"of {column}", "made_by": "offline", **more}
    return GeneratedColumn(table=table, column=column, **written)


def test_generated_descriptions_fill_gaps_and_never_replace(bird, home):
    bird.describe("customers.csv", TOWN.encode())
    columns = [
        generated("Customers", "town"),
        generated("orders", "total", value_description="EUR"),
    ]
    write_generated(home, file_digest(bird.database), columns, database_id="shop")
    benchmark = bird.load()
    told = column_descriptions(benchmark, "shop", home)
    assert told["customers", "town"].description == "where the customer lives – or lived"
    assert told["orders", "total"] == ColumnDescription("of total", "EUR")
    assert ("orders", "total") not in column_descriptions(benchmark, "shop")
    schema = open_benchmark_database(benchmark, "shop", 3, home).schema
    assert schema.table("orders").columns[2].description == "of total"


def test_what_prompts_show_of_generated_descriptions_is_named_with_its_backbone_and_a_digest(bird, home):
    bird.describe("customers.csv", TOWN.encode())
    benchmark, digest = bird.load(), file_digest(bird.database)
    assert generated_descriptions(benchmark, ["shop"], home) == ""
    town, total = generated("Customers", "town"), generated("orders", "total")
    shipped = generated("orders", "id", made_by="gpt-4o")
    write_generated(home, digest, [town], database_id="shop")  # described by the benchmark already
    assert generated_descriptions(benchmark, ["shop"], home) == ""
    write_generated(home, digest, [town, total, shipped], database_id="shop")
    both = generated_descriptions(benchmark, ["shop"], home)
    assert re.fullmatch(r"1 column by gpt-4o, 1 column by offline \([0-9a-f]{8}\)", both)
    other = total.model_copy(update={"description": "another text"})
    write_generated(home, digest, [other, shipped], database_id="shop")
    changed = generated_descriptions(benchmark, ["shop"], home)
    assert changed != both and changed.partition(" (")[0] == both.partition(" (")[0]


def test_what_was_generated_is_read_back_and_belongs_to_one_content_of_the_database(home):
    column = generated("a|b", "c.d", description="ünï", value_description="1 | 2")
    path = write_generated(home, "d1", [column], database_id="shop")
    assert read_generated(home, "d1") == {("a|b", "c.d"): column}
    assert read_generated(home, "d2") == {}
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 99}', '{"format": 1, "columns": [{}]}'])
def test_damaged_generated_descriptions_are_named(home, content):
    path = generated_path(home, "d1")
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(DataError, match=path.name):
        read_generated(home, "d1")


def test_every_real_column_is_known_to_its_description_files(shared_data, home):
    conf = Path(__file__).parents[3] / "conf"
    benchmark = load_benchmark(
        load_benchmark_settings(conf, "bird-dev"), data=shared_data, home=home, conf=conf
    )
    described = valued = 0
    for database_id, schema in benchmark.schemas.items():
        files = read_description_files(benchmark.description_folder(database_id))
        known = column_descriptions(benchmark, database_id)
        for name in schema.column_names:
            key = name.table.lower(), name.column.lower()
            assert key in files
            assert "\n" not in known[key].description
            described += bool(known[key].description)
            valued += bool(known[key].value_description)
    assert (described, valued) == (699, 278)

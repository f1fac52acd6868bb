"""Schemas from tables files, against the databases that they describe, and from scripts of CREATE TABLE statements."""

from pathlib import Path
from typing import Any

import pytest

from tasks.benchmarks.schemas import names_in_schema, read_schemas, schema_from_ddl, schema_from_tables_json
from tasks.core.errors import DataError
from tasks.database.database import open_database
from tasks.database.schema import ColumnDescription, ForeignKey

ENTRY: dict[str, Any] = {
    "db_id": "bank",
    "table_names_original": ["Customers", "yearmonth"],
    "column_names_original": [[-1, "*"], [0, "ID"], [0, "Name"], [1, "CustomerID"], [1, "Date"]],
    "column_types": ["text", "integer", "text", "integer", "date"],
    "primary_keys": [1, [3, 4]],
    "foreign_keys": [[3, 1], [3, 1]],
}


def test_an_entry_gives_tables_types_and_keys_composite_ones_too() -> None:
    schema = schema_from_tables_json(ENTRY).described({("customers", "name"): ColumnDescription("full name")})
    assert [str(name) for name in schema.column_names] == [
        "Customers.ID", "Customers.Name", "yearmonth.CustomerID", "yearmonth.Date",
    ]  # fmt: skip
    assert [table.primary_key for table in schema.tables] == [("ID",), ("CustomerID", "Date")]
    assert [column.type for column in schema.tables[1].columns] == ["integer", "date"]
    assert schema.tables[0].columns[1].description == "full name"
    assert schema.foreign_keys == (ForeignKey("yearmonth", ("CustomerID",), "Customers", ("ID",)),)
    assert schema.tables[0].columns[0].samples == ()


@pytest.mark.parametrize(("entry", "message"), [
    (ENTRY | {"primary_keys": [99]}, '"bank" is malformed.*index out of range'),
    (ENTRY | {"column_types": ["text"]}, '"bank" is malformed.*zip'),
    (ENTRY | {"foreign_keys": [[3]]}, '"bank" is malformed.*unpack'),
    (ENTRY | {"foreign_keys": [[3, 99]]}, '"bank" is malformed.*index out of range'),
    ({"db_id": "bank"}, "the key 'table_names_original' is missing"),
    ({key: ENTRY[key] for key in list(ENTRY)[:-1]}, "the key 'foreign_keys' is missing"),
])  # fmt: skip
def test_a_malformed_entry_is_named(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        schema_from_tables_json(entry)


def test_spiders_tables_file_and_databases_agree_on_columns(shared_data: Path) -> None:
    schemas = read_schemas(shared_data / "spider" / "tables.json")
    differing = []
    for file in sorted((shared_data / "spider" / "database").glob("*/*.sqlite")):
        told = {str(name).lower() for name in schemas[file.stem].column_names}
        read = {str(name).lower() for name in open_database(file, file.stem).schema.column_names}
        if told != read:
            differing.append((file.stem, sorted(told ^ read)))
    # Spider's file lists SQLite's internal table as one of the database's own
    internal = ["sqlite_sequence.name", "sqlite_sequence.seq"]
    assert differing == [("store_1", internal), ("world_1", internal)]


def test_birds_tables_file_reads_to_its_published_number_of_columns(shared_data: Path) -> None:
    schemas = read_schemas(shared_data / "bird" / "dev_tables.json").values()
    assert (len(schemas), sum(len(schema.column_names) for schema in schemas)) == (11, 798)
    assert any(len(table.primary_key) > 1 for schema in schemas for table in schema.tables)


def test_birds_keys_are_those_that_its_database_declares_or_more(shared_data: Path) -> None:
    told = read_schemas(shared_data / "bird" / "dev_tables.json")["superhero"].foreign_keys
    file = shared_data / "bird" / "dev_databases" / "superhero" / "superhero.sqlite"
    alone = open_database(file, "superhero").schema
    both = open_database(file, "superhero", foreign_keys=told).schema
    assert set(alone.foreign_keys) <= set(both.foreign_keys)
    assert len(set(both.foreign_keys)) == len(both.foreign_keys)


SCRIPT = """
CREATE TABLE "head office" (id INTEGER PRIMARY KEY, "born state" TEXT default NULL, age INT not null);
CREATE TABLE pair (a INT, b INT, PRIMARY KEY (a, b));
CREATE TABLE IF NOT EXISTS child
(
    pair_a INT, pair_b INT, office INTEGER references "head office",
    boss INT REFERENCES child (pair_a),
    constraint k FOREIGN KEY (pair_a, pair_b) REFERENCES pair (a, b) ON DELETE CASCADE,
    foreign key (office) references nowhere (id)
);
CREATE TRIGGER t AFTER INSERT ON child BEGIN DELETE FROM pair; END;
CREATE INDEX i ON pair (a);
CREATE TABLE PAIR (other INT);
"""


def test_a_script_gives_tables_types_and_keys() -> None:
    schema = schema_from_ddl("d", SCRIPT)
    assert [table.name for table in schema.tables] == ["head office", "pair", "child"]
    office, pair, child = schema.tables
    assert [(column.name, column.type) for column in office.columns] == [
        ("id", "INTEGER"), ("born state", "TEXT"), ("age", "INTEGER"),
    ]  # fmt: skip
    assert office.primary_key == ("id",)
    assert pair.primary_key == ("a", "b")
    assert child.primary_key == ()
    assert schema.foreign_keys == (
        ForeignKey("child", ("office",), "head office", ("id",)),
        ForeignKey("child", ("boss",), "child", ("pair_a",)),
        ForeignKey("child", ("pair_a", "pair_b"), "pair", ("a", "b")),
    )


@pytest.mark.parametrize("script", ["", "not SQL", "CREATE TABLE", "SELECT 1", "CREATE TABLE t AS SELECT 1"])
def test_what_is_no_script_makes_no_table(script: str) -> None:
    assert schema_from_ddl("d", script).tables == ()


def test_the_names_of_a_script_are_those_of_its_tables_and_columns() -> None:
    names = names_in_schema(schema_from_ddl("d", SCRIPT))
    assert names[:5] == ("head office", "pair", "child", "id", "born state")

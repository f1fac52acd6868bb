"""Schemas from the benchmarks' tables files, against the databases that they describe."""

import json
from pathlib import Path
from typing import Any

import pytest

from tasks.benchmarks.schemas import schema_from_tables_json
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


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ({"primary_keys": [99]}, "index out of range"),
        ({"column_types": ["text"]}, "zip"),
        ({"foreign_keys": [[3]]}, "unpack"),
        ({"foreign_keys": [[3, 99]]}, "index out of range"),
    ],
)
def test_a_malformed_entry_is_named(broken: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=f'"bank" is malformed.*{message}'):
        schema_from_tables_json(ENTRY | broken)


@pytest.mark.parametrize("key", sorted(set(ENTRY) - {"db_id"}))
def test_a_missing_part_is_named(key: str) -> None:
    with pytest.raises(DataError, match=f"the key '{key}' is missing"):
        schema_from_tables_json({name: value for name, value in ENTRY.items() if name != key})


def test_spiders_tables_file_and_databases_agree_on_columns(shared_data: Path) -> None:
    entries = {
        entry["db_id"]: entry for entry in json.loads((shared_data / "spider" / "tables.json").read_text())
    }
    differing = []
    for file in sorted((shared_data / "spider" / "database").glob("*/*.sqlite")):
        told = {str(name).lower() for name in schema_from_tables_json(entries[file.stem]).column_names}
        read = {str(name).lower() for name in open_database(file, file.stem).schema.column_names}
        if told != read:
            differing.append((file.stem, sorted(told ^ read)))
    # Spider's file lists SQLite's internal table as one of the database's own
    internal = ["sqlite_sequence.name", "sqlite_sequence.seq"]
    assert differing == [("store_1", internal), ("world_1", internal)]


def test_birds_tables_file_reads_to_its_published_number_of_columns(shared_data: Path) -> None:
    entries = json.loads((shared_data / "bird" / "dev_tables.json").read_text())
    schemas = [schema_from_tables_json(entry) for entry in entries]
    assert (len(schemas), sum(len(schema.column_names) for schema in schemas)) == (11, 798)
    assert any(len(table.primary_key) > 1 for schema in schemas for table in schema.tables)


def test_birds_keys_are_those_that_its_database_declares_or_more(shared_data: Path) -> None:
    entries = json.loads((shared_data / "bird" / "dev_tables.json").read_text())
    entry = next(entry for entry in entries if entry["db_id"] == "superhero")
    file = shared_data / "bird" / "dev_databases" / "superhero" / "superhero.sqlite"
    alone = open_database(file, "superhero").schema
    both = open_database(file, "superhero", foreign_keys=schema_from_tables_json(entry).foreign_keys).schema
    assert set(alone.foreign_keys) <= set(both.foreign_keys)
    assert len(set(both.foreign_keys)) == len(both.foreign_keys)

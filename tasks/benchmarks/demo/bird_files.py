"""Writes the demo benchmark's files as BIRD lays them out."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any

from tasks.benchmarks.demo.source_files import DemoDatabase, read_csv, read_descriptions
from tasks.core.errors import DataError

NULL = r"\N"
"""What stands for NULL in `rows/<table>.csv`, as in the text formats of PostgreSQL and MySQL."""

CONVERTERS: Mapping[str, Callable[[str], int | float | str]] = {"INTEGER": int, "REAL": float}
"""How a field is read, by the declared type of its column; any other type is text."""

Columns = Mapping[str, Sequence[sqlite3.Row]]
"""By table, in the order of the schema: `name`, `type` and `pk` of every column."""


def write_questions(databases: Sequence[DemoDatabase], folder: Path) -> None:
    """Write dev.json and train.json; ids count from 0 over the databases in the order given."""
    for split in ("dev", "train"):
        items = [
            {"db_id": database.name, **item.model_dump(by_alias=True)}
            for database in databases
            for item in getattr(database.questions, split)
        ]
        write_json([{"question_id": n, **item} for n, item in enumerate(items)], folder / f"{split}.json")


def write_database(database: DemoDatabase, folder: Path) -> dict[str, Any]:
    """Write the SQLite file of one database, copy its descriptions beside it, return its entry of dev_tables.json.

    Tables are filled in the order of the schema, so a row must come after those that it points to.

    Raises:
        DataError: SQLite refuses the schema or a row, a foreign key points to nothing, a file of rows is missing or
            damaged, or a file is about a table or column that the schema does not have.
    """
    path = folder / "dev_databases" / database.name / f"{database.name}.sqlite"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA foreign_keys = ON;"
        )
        try:
            connection.executescript(database.schema)
        except sqlite3.Error as error:
            raise DataError(f"{database.folder / 'schema.sql'}: SQLite refused it: {error}.") from error
        columns = _columns(connection)
        for file in sorted(database.folder.glob("*/*.csv")):  # rows and descriptions
            if file.stem not in columns:
                raise DataError(f'{file}: schema.sql has no table "{file.stem}".')
        for table, its_columns in columns.items():
            _insert_rows(connection, its_columns, database.folder / "rows" / f"{table}.csv")
        connection.commit()
        readable = _copy_descriptions(database, columns, path.parent / "database_description")
        return _tables_entry(connection, database.name, columns, readable)


def write_json(content: Any, path: Path) -> None:
    """Write a JSON file, indented."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _columns(connection: sqlite3.Connection) -> Columns:
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    ).fetchall()
    query = "SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid"
    return {table: connection.execute(query, (table,)).fetchall() for (table,) in tables}


def _insert_rows(connection: sqlite3.Connection, columns: Sequence[sqlite3.Row], path: Path) -> None:
    reads = [CONVERTERS.get(column["type"], str) for column in columns]
    table, places = path.stem.replace('"', '""'), ", ".join("?" * len(columns))
    insert = f'INSERT INTO "{table}" VALUES ({places})'
    number = 1
    try:
        for number, fields in read_csv(path, [column["name"] for column in columns]):  # noqa: B007 - for the error
            row = [None if field == NULL else read(field) for read, field in zip(reads, fields, strict=True)]
            connection.execute(insert, row)
    except (sqlite3.Error, ValueError, OverflowError) as error:
        raise DataError(f'{path}, line {number}: not a row of "{table}": {error}.') from error


def _copy_descriptions(database: DemoDatabase, columns: Columns, folder: Path) -> dict[tuple[str, str], str]:
    """Copy the description files; return readable names by table and column, "" where there is none."""
    folder.mkdir()
    readable = {}
    for path in sorted((database.folder / "descriptions").glob("*.csv")):
        names = {column["name"] for column in columns[path.stem]}
        for row in read_descriptions(path):
            name = row["original_column_name"]
            if name not in names:
                raise DataError(f'{path}: the table "{path.stem}" of {database.name} has no column "{name}".')
            readable[path.stem, name] = row["column_name"]
        shutil.copyfile(path, folder / path.name)
    return readable


def _tables_entry(
    connection: sqlite3.Connection, name: str, columns: Columns, readable: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    tables = list(columns)
    every = [(table, column["name"]) for table in tables for column in columns[table]]
    position = {key: number for number, key in enumerate(every, 1)}
    keys = [
        [
            position[table, column["name"]]
            for column in sorted(columns[table], key=itemgetter("pk"))
            if column["pk"]
        ]
        for table in tables
    ]
    query = 'SELECT "from", "table", "to" FROM pragma_foreign_key_list(?) ORDER BY id DESC, seq'
    return {
        "db_id": name,
        "table_names_original": tables,
        "table_names": [table.replace("_", " ") for table in tables],
        "column_names_original": [(-1, "*"), *((tables.index(table), column) for table, column in every)],
        "column_names": [(-1, "*")]
        + [(tables.index(key[0]), readable.get(key) or key[1].replace("_", " ")) for key in every],
        "column_types": ["text", *(column["type"].lower() for table in tables for column in columns[table])],
        "primary_keys": [key if len(key) > 1 else key[0] for key in keys if key],
        "foreign_keys": [
            (position[table, child], position[parent, column])
            for table in tables
            for child, parent, column in connection.execute(query, (table,))
        ],
    }

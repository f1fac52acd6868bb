"""Writes the demo benchmark's files as BIRD lays them out."""

import json
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from tasks.benchmarks.demo.sources import DemoDatabase, DevItem, read_descriptions
from tasks.errors import DataError


def write_questions(databases: Iterable[DemoDatabase], folder: Path) -> None:
    """Write dev.json and train.json; ids count from 0 over the databases in the order given."""
    databases = list(databases)
    for split in ("dev", "train"):
        items = [
            (database.name, item) for database in databases for item in getattr(database.questions, split)
        ]
        entries = []
        for number, (database_name, item) in enumerate(items):
            entry: dict[str, Any] = {
                "question_id": number,
                "db_id": database_name,
                "question": " ".join(item.question.split()),
                "evidence": " ".join(item.evidence.split()),
                "SQL": " ".join(item.sql.split()),
            }
            if isinstance(item, DevItem):
                entry["difficulty"] = item.difficulty
            entries.append(entry)
        _write_json(folder / f"{split}.json", entries)


def write_tables(databases: Iterable[DemoDatabase], folder: Path) -> None:
    """Write dev_tables.json from the databases already written below `folder`."""
    entries = []
    for database in databases:
        with closing(sqlite3.connect(database_path(folder, database.name))) as connection:
            entries.append(_tables_entry(connection, database))
    _write_json(folder / "dev_tables.json", entries)


def write_database(database: DemoDatabase, folder: Path) -> None:
    """Write the SQLite file of one database and copy its column descriptions beside it.

    Raises:
        DataError: SQLite refuses the schema or a row, a foreign key points to nothing, or a description
            names a column that the schema does not have.
    """
    path = database_path(folder, database.name)
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        try:
            connection.executescript(database.schema)
            for table, rows in database.rows():
                if rows:
                    places = ", ".join("?" * len(rows[0]))
                    connection.executemany(f"INSERT INTO {quoted(table)} VALUES ({places})", rows)
        except sqlite3.Error as error:
            raise DataError(f"{database.folder}: SQLite refused the demo database: {error}.") from error
        connection.commit()
        if broken := connection.execute("PRAGMA foreign_key_check").fetchall():
            table, rowid, parent, _ = broken[0]
            raise DataError(
                f'{database.folder}: row {rowid} of "{table}" points to a row that "{parent}" does not have '
                f"({len(broken)} such rows). Mend {database.name}.py."
            )
        _copy_descriptions(database, connection, path.parent / "database_description")


def database_path(folder: Path, name: str) -> Path:
    """Return where BIRD's layout keeps a database."""
    return folder / "dev_databases" / name / f"{name}.sqlite"


def quoted(name: str) -> str:
    """Return the name as a quoted identifier."""
    return '"' + name.replace('"', '""') + '"'


def _copy_descriptions(database: DemoDatabase, connection: sqlite3.Connection, folder: Path) -> None:
    folder.mkdir()
    for path in database.description_files:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({quoted(path.stem)})")]
        for row in read_descriptions(path):
            if row["original_column_name"] not in columns:
                raise DataError(
                    f'{path}: the table "{path.stem}" of {database.name} has no column '
                    f'"{row["original_column_name"]}".'
                )
        shutil.copyfile(path, folder / path.name)


def _tables_entry(connection: sqlite3.Connection, database: DemoDatabase) -> dict[str, Any]:
    tables = [name for (name,) in connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY rowid"
    )]  # fmt: skip
    readable = {
        (path.stem, row["original_column_name"]): row["column_name"]
        for path in database.description_files
        for row in read_descriptions(path)
        if row["column_name"]
    }
    columns: list[tuple[int, str]] = [(-1, "*")]
    titles: list[tuple[int, str]] = [(-1, "*")]
    types = ["text"]
    primary_keys: list[int | list[int]] = []
    position: dict[tuple[str, str], int] = {}
    for number, table in enumerate(tables):
        key: dict[int, int] = {}
        for _, name, declared, _, _, rank in connection.execute(f"PRAGMA table_info({quoted(table)})"):
            position[table, name] = len(columns)
            if rank:
                key[rank] = len(columns)
            columns.append((number, name))
            titles.append((number, readable.get((table, name), name.replace("_", " "))))
            types.append(declared.lower())
        members = [key[rank] for rank in sorted(key)]
        if members:
            primary_keys.append(members[0] if len(members) == 1 else members)
    foreign_keys = [
        (position[table, child], position[parent, parent_column])
        for table in tables
        for _, _, parent, child, parent_column, *_ in sorted(
            connection.execute(f"PRAGMA foreign_key_list({quoted(table)})"),
            key=lambda row: (-row[0], row[1]),  # SQLite lists a table's keys last first
        )
    ]
    return {
        "db_id": database.name,
        "table_names_original": tables,
        "table_names": [table.replace("_", " ") for table in tables],
        "column_names_original": columns,
        "column_names": titles,
        "column_types": types,
        "primary_keys": primary_keys,
        "foreign_keys": foreign_keys,
    }


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

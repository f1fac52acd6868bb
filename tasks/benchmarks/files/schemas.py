"""Names and schemas of databases as a benchmark's files describe them, also of databases whose files are absent.

An entry of a tables file (Spider's `tables.json`, BIRD's `dev_tables.json`) names one database (`db_id`), its tables
(`table_names_original`), its columns as pairs of table index and name (`column_names_original`, the first being
[-1, "*"]), their types, and its keys as column indices; BIRD writes a composite primary key as a list within the list.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.benchmarks.files.readers import Row, json_rows, parquet_columns, parquet_lookup
from tasks.core.errors import DataError
from tasks.database.dialects import SQLITE
from tasks.database.foreign_keys import united
from tasks.database.schema import Column, ColumnDescription, ForeignKey, Schema, Table


def read_schemas(path: Path) -> dict[str, Schema]:
    """Read every schema of a tables file (`tables.json`, `dev_tables.json`) by database id, without samples.

    Raises:
        DataError: the file cannot be read, an entry is malformed, or two are about the same database.
    """
    schemas: dict[str, Schema] = {}
    for row in json_rows(path):
        name = row.text(["db_id"])
        if name in schemas:
            raise DataError(f'{row.place}: the schema of "{name}" is in the file twice. Take one out.')
        try:
            schemas[name] = schema_from_tables_json(row.content).described(_descriptions(row))
        except DataError as error:
            raise DataError(f"{row.place}: {error}") from None
    return schemas


def _descriptions(row: Row) -> dict[tuple[str, str], ColumnDescription]:
    """Read `column_descriptions` (KaggleDBQA): a text per column, in the order of `column_names_original`."""
    texts = row.content.get("column_descriptions") or []
    columns, tables = row.content.get("column_names_original"), row.content.get("table_names_original")
    if (
        not texts
        or not isinstance(texts, list)
        or not isinstance(columns, list)
        or not isinstance(tables, list)
    ):
        return {}
    if len(texts) != len(columns):
        raise DataError(
            f"{len(texts)} column_descriptions, but {len(columns)} columns. Give every column a text."
        )
    found = {}
    for text, (table, name) in zip(texts, columns, strict=True):
        plain = text[-1] if isinstance(text, list) and text else text
        if table >= 0 and isinstance(plain, str) and plain.strip():
            found[tables[table].lower(), name.lower()] = ColumnDescription(" ".join(plain.split()))
    return found


def names_in_schema(schema: Schema) -> tuple[str, ...]:
    """Return the names of a schema's tables and columns."""
    columns = (column.column for column in schema.column_names)
    return (*(table.name for table in schema.tables), *columns)


def read_ddl(path: Path) -> Mapping[str, str]:
    """Read the DDL per database of a Parquet file of training questions; nothing where it has no such column.

    Raises:
        DataError: the file is not Parquet.
    """
    columns = parquet_columns(path)
    return parquet_lookup(path, "db_id", "schema") if {"db_id", "schema"} <= set(columns) else {}


def schema_from_tables_json(entry: Mapping[str, Any]) -> Schema:
    """Return the schema of an entry, for a database whose file is absent: no samples.

    Raises:
        DataError: a part of the entry is missing, or an index in it is out of range.
    """
    try:
        columns = entry["column_names_original"]
        types = entry["column_types"]
        members: list[list[Column]] = [[] for _ in entry["table_names_original"]]
        for (table, name), kind in zip(columns, types, strict=True):
            if table >= 0:
                members[table].append(Column(name, kind))
        keys: list[list[str]] = [[] for _ in members]
        for key in entry["primary_keys"]:
            for index in key if isinstance(key, list) else [key]:
                table, name = columns[index]
                keys[table].append(name)
        tables = tuple(
            Table(name, tuple(members[i]), tuple(keys[i]))
            for i, name in enumerate(entry["table_names_original"])
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise _malformed(entry, error) from error
    return Schema(
        entry["db_id"], tables, united(tables, foreign_keys_from_tables_json(entry)), dialect=SQLITE
    )


def foreign_keys_from_tables_json(entry: Mapping[str, Any]) -> tuple[ForeignKey, ...]:
    """Return the foreign keys of an entry, one per pair of columns, as the entry spells their names.

    Raises:
        DataError: a part of the entry is missing, or an index in it is out of range.
    """
    try:
        tables, columns = entry["table_names_original"], entry["column_names_original"]
        return tuple(
            ForeignKey(
                tables[columns[child][0]],
                (columns[child][1],),
                tables[columns[parent][0]],
                (columns[parent][1],),
            )
            for child, parent in entry["foreign_keys"]
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise _malformed(entry, error) from error


def _malformed(entry: Mapping[str, Any], error: Exception) -> DataError:
    what = f"the key {error} is missing" if isinstance(error, KeyError) else str(error)
    return DataError(
        f'The tables file\'s entry for database "{entry.get("db_id", "?")}" is malformed: {what}. '
        "Compare it with the benchmark's original file."
    )

"""Names and schemas of databases as a benchmark's files describe them, also of databases whose files are absent."""

from collections.abc import Mapping
from pathlib import Path

from tasks.benchmarks.files.readers import Row, json_rows, parquet_columns, parquet_lookup
from tasks.core.errors import DataError
from tasks.database.schema import ColumnDescription, Schema
from tasks.database.tables_json import schema_from_tables_json


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

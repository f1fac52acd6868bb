"""Schemas from a benchmark's tables file (Spider's `tables.json`, BIRD's `dev_tables.json`).

An entry names one database (`db_id`), its tables (`table_names_original`), its columns as pairs of table
index and name (`column_names_original`, the first being [-1, "*"]), their types, and its keys as column
indices; BIRD writes a composite primary key as a list within the list.
"""

from collections.abc import Mapping
from typing import Any

from tasks.core.errors import DataError
from tasks.database.dialects import SQLITE
from tasks.database.foreign_keys import united
from tasks.database.schema import Column, ForeignKey, Schema, Table


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

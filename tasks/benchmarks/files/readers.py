"""Reading of a benchmark's JSON and Parquet files into rows; errors name file and position."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.errors import DataError


@dataclass(frozen=True, slots=True)
class Row:
    """One object of a list file, and where it stands.

    Attributes:
        file: the file it was read from.
        position: its position in the file, from 0.
        content: its keys and values.
    """

    file: Path
    position: int
    content: Mapping[str, Any]

    @property
    def place(self) -> str:
        """The row's place for a message: file, position, and id where it has one."""
        named = self.content.get("question_id")
        place = f"{self.file}, item {self.position} (from 0)"
        return place if named is None else f"{place}, question_id {named}"

    def text(self, keys: Sequence[str]) -> str:
        """Return the text under the first of `keys` that is present.

        Raises:
            DataError: none is present, or the value is no text, or blank.
        """
        key = next((key for key in keys if self.content.get(key) is not None), None)
        if key is None:
            wanted = '" or "'.join(keys)
            raise DataError(f'{self.place}: the key "{wanted}" is missing. Add it, or take the item out.')
        value = self.content[key]
        if not isinstance(value, str):
            raise DataError(f'{self.place}: "{key}" must be a text, not {type(value).__name__}.')
        if not value.strip():
            raise DataError(f'{self.place}: "{key}" is empty. Fill it in, or take the item out.')
        return value

    def optional_text(self, key: str) -> str | None:
        """Return the text under `key`, None where it is absent or null.

        Raises:
            DataError: the value is no text.
        """
        value = self.content.get(key)
        if value is not None and not isinstance(value, str):
            raise DataError(f'{self.place}: "{key}" must be a text, not {type(value).__name__}.')
        return value

    def folder_name(self, key: str) -> str:
        """Return the text under `key`, which also has to be the name of a folder.

        Raises:
            DataError: it is missing, empty, or would lead out of the databases' folder.
        """
        name = self.text([key])
        if name in {".", ".."} or any(sign in name for sign in "/\\\0"):
            raise DataError(f'{self.place}: "{key}" must be the name of a database, not a path: {name!r}.')
        return name


def read_text(path: Path) -> str:
    """Read a text file in UTF-8, with or without a byte order mark.

    Raises:
        DataError: the file cannot be read or is not UTF-8.
    """
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is {error.object[error.start]:#04x}"
        raise DataError(f"{path} is not UTF-8: {byte}. Save it as UTF-8.") from None


def read_json(path: Path) -> Any:
    """Read a JSON file, with or without a byte order mark.

    Raises:
        DataError: the file cannot be read, is not UTF-8, or is not JSON.
    """
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise DataError(f"{path} is not JSON: {error.msg} in {place}.") from None


def json_rows(path: Path) -> Iterator[Row]:
    """Yield the objects of a JSON file that holds a list of them.

    Raises:
        DataError: as `read_json`, or the file holds something else.
    """
    content = read_json(path)
    if not isinstance(content, list):
        raise DataError(f"{path} must hold a list of objects, not {type(content).__name__}.")
    for position, item in enumerate(content):
        if not isinstance(item, dict):
            kind = type(item).__name__
            raise DataError(f"{path}, item {position} (from 0): must be an object, not {kind}.")
        yield Row(path, position, item)


def parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a Parquet file with those of `columns` that it has, in the file's order.

    Raises:
        DataError: the file is not Parquet.
    """
    names = [name for name in parquet_columns(path) if name in columns]
    if names:
        wanted = ", ".join(f'"{name}"' for name in names)
        for position, row in enumerate(_query(path, f"SELECT {wanted} FROM read_parquet(?)")[1]):
            yield Row(path, position, dict(zip(names, row, strict=True)))


def parquet_columns(path: Path) -> tuple[str, ...]:
    """Return the names of a Parquet file's columns.

    Raises:
        DataError: the file is not Parquet.
    """
    return _query(path, "SELECT * FROM read_parquet(?) LIMIT 0")[0]


def parquet_lookup(path: Path, key: str, value: str) -> dict[str, str]:
    """Return one `value` for each distinct `key` of a Parquet file, both being columns of texts.

    Raises:
        DataError: the file is not Parquet.
    """
    rows = _query(path, f'SELECT "{key}", min("{value}") FROM read_parquet(?) GROUP BY 1 ORDER BY 1')[1]
    return {str(row[0]): str(row[1]) for row in rows if None not in row}


def _query(path: Path, sql: str) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    import duckdb

    with duckdb.connect() as connection:
        try:
            result = connection.execute(sql, [str(path)])
            return tuple(column[0] for column in result.description or ()), result.fetchall()
        except duckdb.Error as error:
            raise DataError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from None

"""Rows of a benchmark's files: JSON, JSON lines, Parquet, CSV and TSV; errors name file and position."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tasks.core.errors import DataError
from tasks.core.files import read_file
from tasks.core.wording import storable


@dataclass(frozen=True, slots=True)
class Row:
    """One object of a list file, and where it stands."""

    file: Path  # the file it was read from
    position: int  # its position in the file, from 0
    content: Mapping[str, Any]  # its keys and values
    line: int | None = None  # the line on which it ends, from 1; None where the file is no list of lines

    @property
    def where(self) -> str:
        """Where the row stands in its file."""
        return f"item {self.position} (from 0)" if self.line is None else f"line {self.line}"

    @property
    def location(self) -> str:
        """The row's location for a message: file, position, and id where it has one."""
        named = self.content.get(self.id_key or "")
        location = f"{self.file}, {self.where}"
        return location if named in (None, "") else f"{location}, question_id {named}"

    @property
    def id_key(self) -> str | None:
        """The key of its question's id, which is one of the names in use, however spelled; None where it has none."""
        by_name = {plain_name(str(key)): key for key, value in self.content.items() if value is not None}
        return next((by_name[name] for name in ID_NAMES if name in by_name), None)

    @property
    def question_id(self) -> str | None:
        """The id of its question; None where it has none."""
        return None if self.id_key is None else self.identity(self.id_key)

    def first(self, keys: Sequence[str]) -> Any:
        """Return the value under the first of `keys` that has one; None where there is none."""
        values = (self.content.get(key) for key in keys)
        return next((value for value in values if value not in (None, "")), None)

    def text(self, keys: Sequence[str]) -> str:
        """Return the text under the first of `keys` that is present, storable everywhere (see `storable`)."""
        key = next((key for key in keys if self.content.get(key) is not None), None)
        if key is None:
            names = '" or "'.join(keys)
            raise DataError(f'{self.location}: the key "{names}" is missing. Add it, or take the item out.')
        value = self.content[key]
        if not isinstance(value, str):
            raise DataError(f'{self.location}: "{key}" must be a text, not {type(value).__name__}.')
        if not value.strip():
            raise DataError(f'{self.location}: "{key}" is empty. Fill it in, or take the item out.')
        return storable(value)

    def texts(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Return the text under the first of `keys` that is present, or each text of a list there."""
        key = next((key for key in keys if self.content.get(key) is not None), None)
        value = None if key is None else self.content[key]
        if not isinstance(value, list) or not value:
            return (self.text(keys),)
        assert key is not None
        return tuple(replace(self, content={**self.content, key: text}).text(keys) for text in value)

    def optional_text(self, key: str) -> str | None:
        """Return the text under `key`, storable everywhere; None where it is absent or null."""
        value = self.content.get(key)
        if value is not None and not isinstance(value, str):
            raise DataError(f'{self.location}: "{key}" must be a text, not {type(value).__name__}.')
        return value if value is None else storable(value)

    def identity(self, key: str) -> str:
        """Return the id of a question under `key`: a text, or a whole number as text."""
        value = self.content[key]
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int | str) or not str(value).strip():
            raise DataError(f'{self.location}: "{key}" must be a whole number or a text, not {value!r}.')
        return str(value).strip()

    def folder_name(self, key: str) -> str:
        """Return the text under `key`, which also has to be the name of a folder."""
        name = self.text([key])
        if name in {".", ".."} or any(sign in name for sign in "/\\\0"):
            raise DataError(f'{self.location}: "{key}" must be the name of a database, not a path: {name!r}.')
        return name


def read_text(path: Path) -> str:
    """Read a text file in UTF-8, with or without a byte order mark."""
    try:
        return read_file(path).decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is {error.object[error.start]:#04x}"
        raise DataError(f"{path} is not UTF-8: {byte}. Save it as UTF-8.") from None


def parse_json(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """Parse JSON; all that Python cannot read raises `JSONDecodeError`.

    `pairs` makes a value of the keys and values of a JSON object; None: a dictionary.
    """
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply", text, 0) from None
    except ValueError as error:  # a number of thousands of digits
        message = str(error).partition(";")[0]  # behind it is advice on Python's settings
        raise json.JSONDecodeError(message, text, 0) from None


def read_json(path: Path) -> Any:
    """Read a JSON file, with or without a byte order mark."""
    try:
        return parse_json(read_text(path))
    except json.JSONDecodeError as error:
        location = f"line {error.lineno}, column {error.colno}"
        raise DataError(f"{path} is not JSON: {error.msg} in {location}.") from None


def json_rows(path: Path) -> Iterator[Row]:
    """Yield the objects of a JSON file that holds a list of them."""
    content = read_json(path)
    if not isinstance(content, list):
        raise DataError(f"{path} must hold a list of objects, not {type(content).__name__}.")
    for position, item in enumerate(content):
        yield object_row(path, position, item)


def object_row(path: Path, position: int, content: Any, line: int | None = None) -> Row:
    """Return an object that stands at a position in a file, from 0, and on a line, from 1."""
    if not isinstance(content, dict):
        where = Row(path, position, {}, line).where
        raise DataError(f"{path}, {where}: must be an object, not {type(content).__name__}.")
    return Row(path, position, content, line)


def json_line_rows(path: Path) -> Iterator[Row]:
    """Yield the objects of a file with one JSON object per line; blank lines are skipped."""
    for position, line in enumerate(read_text(path).split("\n")):
        if not line.strip():
            continue
        try:
            content = parse_json(line)
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {position + 1}: not JSON ({error.msg}).") from None
        yield object_row(path, position, content, position + 1)


def files_digest(paths: Sequence[Path]) -> str:
    """Return the sha256 of a file, or of the digests of several."""
    try:
        digests = [hashlib.sha256(read_file(path)).hexdigest() for path in paths]
    except OSError as error:
        raise DataError(f"{error.filename} cannot be read: {error.strerror}.") from None
    return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()


def parquet_rows(path: Path, columns: Sequence[str]) -> Iterator[Row]:
    """Yield the rows of a Parquet file with those of `columns` that it has, in the file's order."""
    names = [name for name in parquet_columns(path) if name in columns]
    if names:
        listed = ", ".join(f'"{name}"' for name in names)
        for position, row in enumerate(_query(path, f"SELECT {listed} FROM read_parquet(?)")[1]):
            yield Row(path, position, dict(zip(names, row, strict=True)))


def parquet_columns(path: Path) -> tuple[str, ...]:
    """Return the names of a Parquet file's columns."""
    return _query(path, "SELECT * FROM read_parquet(?) LIMIT 0")[0]


def parquet_schemas(path: Path) -> dict[str, str]:
    """Return the text under `schema` for each `db_id` of a Parquet file; {} where it lacks one of these columns."""
    if not {"db_id", "schema"} <= set(parquet_columns(path)):
        return {}
    rows = _query(path, 'SELECT db_id, min("schema") FROM read_parquet(?) GROUP BY 1 ORDER BY 1')[1]
    return {str(row[0]): str(row[1]) for row in rows if None not in row}


def _query(path: Path, sql: str) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the column names and the rows of a query on a Parquet file, whose path is the query's parameter."""
    import duckdb

    with duckdb.connect() as connection:
        try:
            result = connection.execute(sql, [str(path)])
            return tuple(column[0] for column in result.description or ()), result.fetchall()
        except duckdb.Error as error:
            raise DataError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from None


ID_NAMES = ("question_id", "instance_id", "id")
DATABASE_NAMES = ("db_id", "database_id", "database", "db")
"""What the keys of a question's id and of its database may be called, in plain names; of several the first counts."""
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
"""What may separate columns, in words."""


def plain_name(name: str) -> str:
    """Return a column's name in small letters, with `_` for all that is no letter or digit.

    >>> plain_name(" PREDICTED SQL")
    'predicted_sql'
    """
    return re.sub(r"[\W_]+", "_", name.strip().lower()).strip("_")


def read_objects(path: Path) -> Iterator[Row]:
    """Yield the objects of a JSON, JSON lines, CSV or TSV file; `plain_name` has changed their keys."""
    ending = path.suffix.lower()
    if ending in (".csv", ".tsv"):
        rows = csv_rows(path)
    elif ending in (".jsonl", ".ndjson"):
        rows = json_line_rows(path)
    elif ending == ".json":
        rows = json_rows(path)
    else:
        raise DataError(f"{path}: the name must end in .csv, .tsv, .jsonl or .json, by which it is read.")
    for row in rows:
        yield replace(row, content={plain_name(key): value for key, value in row.content.items()})


def csv_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file as objects, by the names in its header."""
    header, lines = read_csv_table(path, read_text(path))
    for position, (line, cells) in enumerate(lines.items()):
        yield Row(path, position, dict(zip(header, cells, strict=True)), line)


def read_csv_table(path: Path, text: str) -> tuple[list[str], dict[int, list[str]]]:
    """Return the header of a CSV file's text, and its rows, blank ones left out, by the line that each ends on.

    Columns are separated by the most frequent of the `DELIMITERS` in the header, except in TSV: in many countries,
    spreadsheets write semicolons.
    """
    header_line = text.partition("\n")[0]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else max(DELIMITERS, key=header_line.count)
    csv.field_size_limit(max(len(text), 131_072))  # Python's default, and more where a cell may need it
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: dict[int, list[str]] = {}
    try:
        header = [name.strip() for name in next(reader, [])]
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise DataError(
                    f"{path}, line {reader.line_num}: {len(cells)} cells, but the header has {len(header)}. "
                    f'A text with {DELIMITERS[delimiter]} or line breaks must stand in quotes ("), quotes within it '
                    "doubled."
                )
            rows[reader.line_num] = cells
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: not CSV ({error}).") from None
    return header, rows

"""Reads files of predictions in the formats that systems write them in (see `FORMATS`).

The format follows from the content, and from the file's ending where the content leaves it open.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tasks.backbone.protocol import json_object
from tasks.benchmarks.rows import (
    DATABASE_NAMES,
    ID_NAMES,
    Row,
    csv_rows,
    files_digest,
    json_line_rows,
    object_row,
    parse_json,
    plain_name,
    read_text,
)
from tasks.core.errors import DataError
from tasks.core.files import shown_files

PREDICTED_KEYS = ("predicted_sql", "prediction", "pred_sql", "predicted")
"""Names that say that a column holds predictions, whatever else there is."""
SQL_KEYS = (*PREDICTED_KEYS, "sql", "query")
GOLD_WORDS = frozenset({"gold", "golden", "reference", "target", "truth", "expected"})
_SQL_WORD = re.compile(r"sql|query|pred\w*|generated")
_ITEM = re.compile(r"\.\d+(?:\.|$)")
"""Part of the name of a column that is an item of a list, or within one."""


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """How a file of predictions is read where its content leaves it open."""

    # name of the column that holds the SQL, `a.b` for a key of a nested object; None: as its name says
    sql_column: str | None = None
    by_position: bool = False  # whether prediction N belongs to question N, whatever ids the file has
    unwrap: bool = False  # whether SQL is taken out of Markdown fences and of `database | SQL`


class ColumnNames(NamedTuple):
    """Names of columns, as the file spells them."""

    identity: str | None  # the question id's; None where predictions belong to questions by position
    sql: str  # the SQL's
    database: str | None  # the database's; None where there is none


def flattened(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row whose nested objects and lists are columns of their own.

    >>> flattened({"id": 1, "predictions": {"m": {"sql": "SELECT 1"}}, "candidates": ["SELECT 2"]})
    {'id': 1, 'predictions.m.sql': 'SELECT 1', 'candidates.0': 'SELECT 2'}
    """
    flat: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, list):
            value = dict(enumerate(value))
        if isinstance(value, dict):
            flat |= {f"{name}.{inner}": content for inner, content in flattened(value).items()}
        else:
            flat[str(name)] = value
    return flat


def find_columns(location: str, rows: Sequence[Mapping[str, Any]], reading: ReadingOptions) -> ColumnNames:
    """Return the names of the columns of the id, the SQL and the database, compared without case, blanks and signs.

    `location` says, for messages, in which file and where in it the names are.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    identity = _named(names, ID_NAMES)
    if reading.sql_column is None:
        sql_columns = _sql_columns(names, rows)
    elif reading.sql_column in names:
        sql_columns = [reading.sql_column]
    else:
        sql_columns = [name for name in names if plain_name(name) == plain_name(reading.sql_column)]
    if len(sql_columns) > 1:
        listed = ", ".join(f'"{name}"' for name in sql_columns)
        raise DataError(
            f"{location}: several columns may hold the predicted SQL: {listed}. "
            f"Say which with --sql-column, for example --sql-column {sql_columns[-1]!r}."
        )
    lacking, hints = [], []
    if identity is None and not reading.by_position:
        lacking.append(f"question id ({', '.join(ID_NAMES)})")
        hints.append("name the id so, or add --by-position if prediction N belongs to question N")
    if not sql_columns:
        lacking.append(f"SQL ({', '.join(SQL_KEYS)})" if reading.sql_column is None else reading.sql_column)
        hints.append("name the column of the SQL with --sql-column")
    if lacking:
        listed, hint = " and no ".join(lacking), "; ".join(hints)
        raise DataError(
            f"{location}: there is no {listed}; it has {', '.join(names) or 'nothing'}. {hint[0].upper()}{hint[1:]}."
        )
    return ColumnNames(identity, sql_columns[0], _named(names, DATABASE_NAMES))


def _named(names: Sequence[str], spellings: Sequence[str]) -> str | None:
    """Return the column with the first of these plain names that a column has; None without one."""
    by_name = {plain_name(name): name for name in reversed(names)}
    return next((by_name[name] for name in spellings if name in by_name), None)


def _sql_columns(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns that may hold the predicted SQL: one whose name says so, else all whose name is like it.

    An item of a list is none: which of several answers counts is the user's to say.
    """
    no_items = [name for name in names if not _ITEM.search(name)]
    texts = [name for name in no_items if all(isinstance(row.get(name), str | int | None) for row in rows)]
    certain = [name for name in texts if says_predicted(name)]
    return certain or [name for name in texts if _is_like_sql(name)]


def says_predicted(name: str) -> bool:
    """Return whether a column's name says that it holds predictions, whatever else there is."""
    return plain_name(name.rpartition(".")[2]) in PREDICTED_KEYS


def _is_like_sql(name: str) -> bool:
    words = plain_name(name).split("_")
    return not GOLD_WORDS.intersection(words) and any(_SQL_WORD.fullmatch(word) for word in words)


Format = Literal["bird", "lines", "csv", "rows", "table", "folder", "trajectories", "opentelemetry"]
FORMATS: Mapping[Format, str] = {
    "bird": "BIRD's submission: a JSON object, question id -> SQL, tab, `----- bird -----`, tab, database",
    "lines": "Spider's text: one SQL per line, in the order of the questions, each with a tab and its database or not",
    "csv": "CSV (or TSV) with a header: a question id and a SQL",
    "rows": "JSON lines, or a JSON list, of objects with a question id and a SQL",
    "table": "our own predictions.json",
    "folder": "Spider 2.0's submission: a folder with a file <question id>.sql per question",
}
_VALID_FORMATS = f"Formats: {'; '.join(FORMATS.values())}."
NO_ANSWER = "SELECT no_answer"
"""Stands where there is no SQL, so that every question keeps its line or id.

An empty statement would return no row and pass for right where the gold returns none; this one names a
column that does not exist, so every evaluator counts it wrong. (Spider's evaluator also takes an empty line
for the end of a dialogue.)
Read back, it is no answer, and nothing is executed.
"""

BIRD_MARK = "----- bird -----"


@dataclass(frozen=True, slots=True)
class PredictionEntry:
    """One prediction as the file has it."""

    location: str  # where it stands, for messages
    question_id: str | None  # the id it is about; None where the format has only lines
    sql: str | None  # the SQL; None where there is none
    database_id: str | None = None  # the database that the file names with it, None where it names none
    column: str | None = None  # that the SQL stands in; None where the format has no columns
    other_texts: tuple[str, ...] = ()  # names of the columns with a text that is no id, SQL or database


@dataclass(frozen=True, slots=True)
class PredictionFile:
    """A file of predictions, not yet paired with any question."""

    path: Path  # the file
    format: Format  # which of `FORMATS`
    sha256: str  # of the file
    entries: tuple[PredictionEntry, ...]  # in file order; for "lines" one per line, blank lines included
    reading: ReadingOptions = field(default_factory=ReadingOptions)  # what the user says about the file


def _read_folder(folder: Path, reading: ReadingOptions) -> PredictionFile:
    """Read a folder with one file of SQL per question, named after the question's id."""
    files = shown_files(folder, "*.sql")
    if not files:
        others = " Its CSV files are results, and only SQL is scored." if any(folder.glob("*.csv")) else ""
        raise DataError(f"{folder} holds no file <question id>.sql.{others} {_VALID_FORMATS}")
    texts = [read_text(file) for file in files]
    names = [file.name for file in files]
    digest = hashlib.sha256("\0".join([*names, *texts]).encode()).hexdigest()
    entries = (
        PredictionEntry(str(file), file.stem, text.strip() or None)
        for file, text in zip(files, texts, strict=True)
    )
    return PredictionFile(folder, "folder", digest, tuple(entries), reading)


def read_predictions(path: Path, reading: ReadingOptions | None = None) -> PredictionFile:
    """Read a file of predictions by its content, and by what the user says about it."""
    reading = reading or ReadingOptions()
    if path.is_dir():
        return _read_folder(path, reading)
    text = read_text(path)
    if not text.strip():
        raise DataError(f"{path} is empty. {_VALID_FORMATS}")
    file_format, entries_read = _read(path, text, reading)
    if not (entries := tuple(entries_read)):
        raise DataError(f"{path} holds no prediction. {_VALID_FORMATS}")
    return PredictionFile(path, file_format, files_digest([path]), entries, reading)


def _read(path: Path, text: str, reading: ReadingOptions) -> tuple[Format, Iterator[PredictionEntry]]:
    """Recognize the format of a file by its ending and its first characters; return the format and the predictions."""
    ending = path.suffix.lower()
    first_character = text.lstrip()[0]
    if ending in (".jsonl", ".ndjson"):
        return "rows", _rows(json_line_rows(path), reading)
    if first_character in ("{", "[") and ending not in (".csv", ".tsv"):
        return _read_json(path, text, reading)
    if ending == ".json":
        raise DataError(f"{path} is not JSON: it begins with {first_character!r}. {_VALID_FORMATS}")
    first_line = text.lstrip().split("\n", 1)[0]
    if ending in (".csv", ".tsv") or _is_header(first_line.lower()):
        return "csv", _rows(csv_rows(path), reading, names_in="the header")
    return "lines", _lines(text)


def _read_json(path: Path, text: str, reading: ReadingOptions) -> tuple[Format, Iterator[PredictionEntry]]:
    """Recognize the format of a JSON file by what it holds; return the format and the predictions."""
    try:
        content = parse_json(text, lambda pairs: _unique(pairs, path))
    except json.JSONDecodeError as error:
        first_line = text.lstrip().split("\n", 1)[0]
        if error.msg == "Extra data" and json_object(first_line) is not None:
            return "rows", _rows(json_line_rows(path), reading)  # JSON lines under another ending
        location = f"line {error.lineno}, column {error.colno}"
        raise DataError(f"{path} is not JSON: {error.msg} in {location}. {_VALID_FORMATS}") from None
    if isinstance(content, list):
        rows = (object_row(path, number, item) for number, item in enumerate(content))
        return "rows", _rows(rows, reading)
    if _named(list(content), ID_NAMES):  # a single prediction
        return "rows", _rows([object_row(path, 0, content)], reading)
    if set(content) == {"columns", "data"}:
        return "table", _rows(_table(path, content), reading)
    return "bird", _bird(path, content)


def _bird(path: Path, content: Mapping[str, Any]) -> Iterator[PredictionEntry]:
    """Yield the entries of BIRD's form: by question id the SQL, a tab, the mark, a tab and the database."""
    for key, value in content.items():
        location = f'key "{key}"'
        prediction = _text(path, location, "the prediction", value)
        sql, mark, database = (prediction or "").partition(f"\t{BIRD_MARK}\t")
        if BIRD_MARK in (database if mark else sql):
            raise DataError(
                f"{path}, {location}: write the SQL, a tab, {BIRD_MARK}, a tab and the database, each once."
            )
        yield PredictionEntry(location, key.strip(), sql_or_none(sql), database.strip() or None)


def _table(path: Path, content: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of {"columns": [name, ...], "data": [[value, ...], ...]}."""
    columns, data = content["columns"], content["data"]
    if not (isinstance(columns, list) and isinstance(data, list)):
        raise DataError(f'{path}: "columns" and "data" of a table of predictions must be lists.')
    for number, row in enumerate(data):
        if not isinstance(row, list) or len(row) != len(columns):
            raise DataError(
                f'{path}, row {number} (from 0): must be a list of {len(columns)} values, one per "columns".'
            )
        yield Row(path, number, dict(zip(map(str, columns), row, strict=True)))


def _rows(objects: Iterable[Row], reading: ReadingOptions, names_in: str = "") -> Iterator[PredictionEntry]:
    """Yield the predictions of objects with an id and a SQL, under any of the names in use.

    `names_in` says for messages where in the file the names are; "": in each object.
    """
    rows = [replace(row, content=flattened(row.content)) for row in objects]
    if not rows:
        return
    path = rows[0].file
    columns = find_columns(f"{path}, {names_in or rows[0].where}", [row.content for row in rows], reading)
    identity_column = None if reading.by_position else columns.identity
    needed = [name for name in (identity_column, columns.sql) if name]
    for row in rows:
        content = row.content
        if absent := [name for name in needed if name not in content]:
            raise DataError(f"{path}, {row.where}: lacks {' and '.join(absent)}, which other rows have.")
        database = content.get(columns.database) if columns.database else None
        if columns.identity is None:
            identity = ""
        elif reading.by_position:
            identity = str(content.get(columns.identity) or "")  # it need not be a valid id
        else:
            identity = row.identity(columns.identity)
        sql = _text(path, row.where, f'"{columns.sql}"', content[columns.sql])
        database_id = _text(path, row.where, f'"{columns.database}"', database)
        yield PredictionEntry(
            location=row.where,
            question_id=identity,
            sql=sql_or_none(sql),
            database_id=(database_id or "").strip() or None,
            column=columns.sql,
            other_texts=tuple(
                name for name, value in content.items() if isinstance(value, str) and name not in columns
            ),
        )


def _lines(text: str) -> Iterator[PredictionEntry]:
    lines = text.split("\n")
    if not lines[-1].strip():
        lines.pop()  # the file ends with a line break
    for number, line in enumerate(lines, start=1):
        yield PredictionEntry(f"line {number}", None, line if line.strip() else None)


def sql_or_none(text: str | None) -> str | None:
    """Return a SQL without white space around it; None where there is none, or our own mark for none."""
    stripped = (text or "").strip()
    return stripped if stripped and stripped.rstrip("; ") != NO_ANSWER else None


def _text(path: Path, location: str, noun: str, value: Any) -> str | None:
    """Return a text; None for null, and for the 0 that BIRD's own baseline writes for an empty reply."""
    if value is None or (type(value) is int and value == 0):
        return None
    if not isinstance(value, str):
        raise DataError(f"{path}, {location}: {noun} must be a text or null, not {type(value).__name__}.")
    return value


def _unique(pairs: list[tuple[str, Any]], path: Path) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise DataError(f'{path}: the key "{key}" occurs twice. Take one out.')
        content[key] = value
    return content


def _is_header(line: str) -> bool:
    """Return whether a line in lower case is the header of a table, and not a SQL that reads such a column."""
    has_id = re.search(r"\b(question|instance)_id\b", line) and ("," in line or "\t" in line)
    return bool(has_id) and not re.match(r"[\s(]*(select|with)\s", line)

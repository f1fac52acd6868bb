"""Reads objects from CSV, TSV, JSON lines or a JSON list; names of keys are made plain (`Gold SQL` is `gold_sql`)."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tasks.benchmarks.files.readers import Row, json_line_rows, json_rows, read_text
from tasks.core.errors import DataError

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
    """Yield the objects of a file, their keys made plain; the form follows from the file's ending.

    Raises:
        DataError: the file cannot be read, has another ending, or is malformed.
    """
    ending = path.suffix.lower()
    if ending in (".csv", ".tsv"):
        rows = _csv_rows(path, ending)
    elif ending in (".jsonl", ".ndjson"):
        rows = json_line_rows(path)
    elif ending == ".json":
        rows = json_rows(path)
    else:
        raise DataError(f"{path}: the name must end in .csv, .tsv, .jsonl or .json, by which it is read.")
    for row in rows:
        yield replace(row, content={plain_name(key): value for key, value in row.content.items()})


def delimiter_of(header: str) -> str:
    """Return what separates the columns of a CSV file's first line; spreadsheets write semicolons in many countries.

    >>> delimiter_of("question;sql")
    ';'
    """
    return max(DELIMITERS, key=header.count)


def read_csv_table(path: Path, text: str, delimiter: str) -> tuple[list[str], dict[int, list[str]]]:
    """Return the header of a CSV file's text, and its rows by the number of their last line; blank rows are left out.

    Raises:
        DataError: it is not CSV, or a row has more or fewer cells than the header.
    """
    csv.field_size_limit(max(len(text), 131_072))
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


def _csv_rows(path: Path, ending: str) -> Iterator[Row]:
    text = read_text(path)
    delimiter = "\t" if ending == ".tsv" else delimiter_of(text.partition("\n")[0])
    header, rows = read_csv_table(path, text, delimiter)
    for position, (line, cells) in enumerate(rows.items()):
        yield Row(path, position, dict(zip(header, cells, strict=True)), line)

"""Column descriptions: BIRD's CSV files, and the published generated ones of `column_meaning.json`.

Where both describe a column, the published sentence wins, as in RSL-SQL v1, which used nothing else; the CSV
fills the gaps and always gives the value descriptions. A CSV's description that only repeats the column's
name counts as none.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from tasks.benchmarks.rows import read_json
from tasks.core.errors import DataError, first_problem
from tasks.core.files import atomic_write_text, read_file, shown_files
from tasks.database.schema import ColumnDescription

Key = tuple[str, str]
"""Table and column, both lower-cased."""

HEADERS: Mapping[str, tuple[str, ...]] = {
    "column": ("original_column_name", "original_column", "column"),
    "name": ("column_name", "name"),
    "description": ("column_description", "column_desc", "description"),
    "values": ("value_description", "value_descriptions", "values_description", "value_desc", "values"),
}
"""What a CSV's headers may be called, compared without case, with blanks and hyphens as underscores."""

_HIGH_BYTES = re.compile(r"[\x80-\xff]+")
_MODEL_TOKEN = re.compile(r"<\|[a-z_]+\|>")
_LINE_MARK = re.compile(r"^[ \t]*#+", re.MULTILINE)


def merge(*sources: Mapping[Key, ColumnDescription]) -> dict[Key, ColumnDescription]:
    """Merge the descriptions of one database; of two texts about the same column, that of the earlier source counts."""
    merged: dict[Key, ColumnDescription] = {}
    for source in sources:
        for key, later in source.items():
            earlier = merged.get(key, ColumnDescription())
            merged[key] = ColumnDescription(
                description=earlier.description or later.description,
                value_description=earlier.value_description or later.value_description,
            )
    return merged


def read_description_files(folder: Path) -> dict[Key, ColumnDescription]:
    """Read every CSV of a `database_description` folder; the file's name is the table's, in any case.

    Takes UTF-8 with or without a byte order mark, UTF-16 with one, and cp1252, also mixed within a file. Of
    two rows about one column the first counts. A folder that does not exist describes nothing.
    """
    descriptions: dict[Key, ColumnDescription] = {}
    for path in shown_files(folder, "*.[cC][sS][vV]"):
        for column, description in _read_file(path):
            descriptions.setdefault((path.stem.strip().lower(), column), description)
    return descriptions


def read_published(path: Path) -> dict[str, dict[Key, ColumnDescription]]:
    """Read `column_meaning.json`: cleaned sentences by lower-cased database id, then by table and column."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise DataError(f"{path} must hold an object, not {type(content).__name__}.")
    published: dict[str, dict[Key, ColumnDescription]] = {}
    for name, text in content.items():
        database, _, rest = name.partition("|")
        table, bar, column = rest.partition("|")
        if not bar or not isinstance(text, str):
            raise DataError(f'{path}, key "{name}": must be "database|table|column" and hold a text.')
        key = table.strip().lower(), column.strip().lower()
        published.setdefault(database.strip().lower(), {})[key] = ColumnDescription(clean(text))
    return published


def clean(text: str) -> str:
    r"""Return a published description as one plain line.

    Takes away comment signs, quotes around the whole, a model's end-of-turn token, and repairs UTF-8 and
    cp1252 that were once read as latin-1.

    >>> clean("# 'The driver\u00e2\u0080\u0099s name.'")
    'The driver’s name.'
    """
    line = one_line(_LINE_MARK.sub("", _MODEL_TOKEN.sub("", _HIGH_BYTES.sub(_repair, text))))
    for quote in "'\"":
        if len(line) > 1 and line[0] == line[-1] == quote:
            line = line[1:-1].strip()
    return line


def one_line(text: str) -> str:
    """Return the text with every run of white space as one blank."""
    return " ".join(text.split())


def _repair(run: re.Match[str]) -> str:
    """Return what was read as latin-1 as the UTF-8, or else the cp1252, that it is."""
    try:
        return run[0].encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return "".join(
            sign if sign > "\x9f" else sign.encode("latin-1").decode("cp1252", "replace") for sign in run[0]
        )


def _read_file(path: Path) -> Iterator[tuple[str, ColumnDescription]]:
    """Yield the lower-cased name of a column and its description, for each row of a CSV that names one."""
    try:
        rows = list(csv.reader(io.StringIO(decode(read_file(path)), newline="")))
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except csv.Error as error:
        raise DataError(f"{path} is not CSV: {error}.") from None
    if not rows:
        return
    header = [re.sub(r"[\s\-_]+", "_", cell.strip().lower()) for cell in rows[0]]
    positions = {  # None: the file has no such column
        meaning: next((header.index(name) for name in names if name in header), None)
        for meaning, names in HEADERS.items()
    }
    if positions["column"] is None:
        raise DataError(
            f'{path}: the first line must name the columns, "{HEADERS["column"][0]}" among them, '
            f"and is: {', '.join(rows[0])[:200]}"
        )
    for row in rows[1:]:
        cells = {
            meaning: one_line(row[position]) if position is not None and position < len(row) else ""
            for meaning, position in positions.items()
        }
        if name := cells["column"]:
            # the description, else the readable name, if it says more than the column's name
            candidates = (cells["description"], cells["name"])
            description = next((text for text in candidates if _is_informative(text, name)), "")
            yield name.lower(), ColumnDescription(description, cells["values"])


def _is_informative(text: str, column: str) -> bool:
    """Return whether a description differs from the column's name in more than case and punctuation."""
    plain, name = (re.sub(r"[\W_]+", "", part).lower() for part in (text, column))
    return plain not in {"", name}


def decode(content: bytes) -> str:
    r"""Decode a description file: UTF-16 with a byte order mark, else UTF-8, and cp1252 for bytes that are not UTF-8.

    >>> decode(b"caf\xc3\xa9 \x95 closed")
    'café • closed'
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    return content.removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="crosscheck-cp1252")  # by `_mend`


def _mend(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("cp1252", "replace"), error.end


codecs.register_error("crosscheck-cp1252", _mend)


class GeneratedColumn(BaseModel, frozen=True):
    """Descriptions of one column, and the name of the backbone that wrote them."""

    table: str
    column: str
    description: str
    value_description: str = ""
    made_by: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Table and column, both lower-cased."""
        return self.table.lower(), self.column.lower()

    @property
    def texts(self) -> ColumnDescription:
        """The descriptions."""
        return ColumnDescription(self.description, self.value_description)


class GeneratedFile(BaseModel, frozen=True):
    """Descriptions of one database; its name is for the reader of the file."""

    format: Literal[1] = 1
    database_id: str = ""
    columns: tuple[GeneratedColumn, ...]


def generated_path(home: Path, digest: str) -> Path:
    """Return the place of the descriptions generated for the database of that digest."""
    return home / "descriptions" / f"{digest}.json"


def read_generated(home: Path, digest: str) -> dict[tuple[str, str], GeneratedColumn]:
    """Read what was generated for a database, by lower-cased table and column; nothing where no file is."""
    path = generated_path(home, digest)
    if not path.is_file():
        return {}
    try:
        file = GeneratedFile.model_validate(read_json(path))
    except ValidationError as error:
        raise DataError(
            f"{path} is damaged, or of another version ({first_problem(error)}). "
            "Remove it and run `crosscheck benchmarks prepare` again."
        ) from None
    return {column.key: column for column in file.columns}


def write_generated(home: Path, digest: str, columns: Iterable[GeneratedColumn], *, database_id: str) -> Path:
    """Write the descriptions of a database, replacing earlier ones, and return the file."""
    path = generated_path(home, digest)
    content = GeneratedFile(database_id=database_id, columns=tuple(columns))
    atomic_write_text(path, content.model_dump_json(indent=1))
    return path

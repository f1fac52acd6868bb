"""Reads the sources of the demo benchmark: one folder per database."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import AfterValidator, BaseModel, Field, ValidationError

from tasks.benchmarks.files.descriptions import one_line
from tasks.benchmarks.files.readers import read_text
from tasks.core.errors import DataError

DESCRIPTION_HEADER = (
    "original_column_name", "column_name", "column_description", "data_format", "value_description"
)  # fmt: skip
OneLine = Annotated[str, AfterValidator(one_line)]
_YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's takes a fifteenth of the time


class TrainItem(BaseModel, extra="forbid", frozen=True):
    """A training question: a demonstration."""

    question: OneLine
    evidence: OneLine = ""
    sql: OneLine = Field(serialization_alias="SQL")


class DevItem(TrainItem):
    """A question of the evaluated split."""

    difficulty: Literal["simple", "moderate", "challenging"]


class QuestionFile(BaseModel, extra="forbid", frozen=True):
    """A `questions.yaml`."""

    dev: tuple[DevItem, ...]
    train: tuple[TrainItem, ...]


@dataclass(frozen=True)
class DemoDatabase:
    """The source of one database: its id, the folder of its files, its CREATE statements, its questions."""

    name: str
    folder: Path
    schema: str
    questions: QuestionFile


def database_folders(sources: Path) -> list[Path]:
    """Return the folders below `sources` that hold a database, by name. Raises DataError when there is none."""
    folders = sorted(path.parent for path in sources.glob("*/schema.sql"))
    if not folders:
        raise DataError(
            f"{sources}: no demo database here (<database>/schema.sql). "
            "Point CROSSCHECK_CONF at the checkout's conf folder."
        )
    return folders


def read_database(folder: Path) -> DemoDatabase:
    """Read one database's schema and questions.

    Raises:
        DataError: a file is missing, or questions.yaml holds something else than questions.
    """
    path = folder / "questions.yaml"
    try:
        content = yaml.load(read_text(path), _YAML_LOADER)  # noqa: S506 - one of the two safe loaders
        questions = QuestionFile.model_validate(content)
    except (ValidationError, yaml.YAMLError) as error:
        raise DataError(f"{path}: {error}") from None
    return DemoDatabase(folder.name, folder, read_text(folder / "schema.sql"), questions)


def read_descriptions(path: Path) -> list[dict[str, str]]:
    """Return the rows of a description file. Raises DataError as `read_csv` does."""
    return [dict(zip(DESCRIPTION_HEADER, row, strict=True)) for _, row in read_csv(path, DESCRIPTION_HEADER)]


def read_csv(path: Path, header: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the last line and the fields of every row below the header.

    Raises:
        DataError: the file cannot be read, has another header, breaks off, or a row has more or fewer fields.
    """
    text = read_text(path)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        if next(reader, None) != list(header):
            raise DataError(f"{path}, line 1: must be {','.join(header)}.")
        for row in reader:
            if len(row) != len(header):
                raise DataError(
                    f"{path}, line {reader.line_num}: {len(row)} fields instead of {len(header)}."
                )
            yield reader.line_num, row
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}.") from None
    if not text.endswith("\n"):
        raise DataError(
            f"{path}, line {reader.line_num}: breaks off. A complete file ends with a line break."
        )

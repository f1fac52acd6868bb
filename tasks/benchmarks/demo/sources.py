"""Reads what the demo benchmark is written in: one folder and one module per database."""

import csv
import importlib
import importlib.util
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from tasks.errors import DataError

DESCRIPTION_HEADER = (
    "original_column_name",
    "column_name",
    "column_description",
    "data_format",
    "value_description",
)


class TrainItem(BaseModel):
    """A training question: a demonstration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    question: str
    sql: str
    evidence: str = ""


class DevItem(TrainItem):
    """A question of the evaluated split."""

    difficulty: Literal["simple", "moderate", "challenging"]


class QuestionFile(BaseModel):
    """A `questions.yaml`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    dev: tuple[DevItem, ...]
    train: tuple[TrainItem, ...]


@dataclass(frozen=True)
class DemoDatabase:
    """The source of one database.

    Attributes:
        name: the database's id.
        folder: where its files are.
        schema: its CREATE statements.
        questions: its questions.
    """

    name: str
    folder: Path
    schema: str
    questions: QuestionFile

    @property
    def description_files(self) -> list[Path]:
        """Its `<table>.csv` files, by name."""
        return sorted((self.folder / "descriptions").glob("*.csv"))

    def rows(self) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
        """Yield every table's name and rows, parents first, the same on every machine.

        Raises:
            DataError: there is no module for this database.
        """
        module = f"tasks.benchmarks.demo.{self.name}"
        if importlib.util.find_spec(module) is None:
            raise DataError(
                f"{self.folder}: no rows for the demo database {self.name}. "
                f"Write {module.replace('.', '/')}.py with a function rows(random)."
            )
        yield from importlib.import_module(module).rows(Random(zlib.crc32(self.name.encode())))


def database_folders(sources: Path) -> list[Path]:
    """Return the folders below `sources` that hold a database, by name.

    Raises:
        DataError: there is none.
    """
    folders = sorted(path.parent for path in sources.glob("*/schema.sql"))
    if not folders:
        raise DataError(
            f"{sources}: no demo database here (<database>/schema.sql). "
            "Point CROSSCHECK_CONF at the checkout's conf folder."
        )
    return folders


def read_database(folder: Path) -> DemoDatabase:
    """Read one database's folder.

    Raises:
        DataError: questions.yaml is missing or holds something else than questions.
    """
    path = folder / "questions.yaml"
    try:
        questions = QuestionFile.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise DataError(f"{path}: missing. A demo database needs its questions beside schema.sql.") from None
    except (ValidationError, yaml.YAMLError) as error:
        raise DataError(f"{path}: {error}") from None
    return DemoDatabase(folder.name, folder, (folder / "schema.sql").read_text(encoding="utf-8"), questions)


def read_descriptions(path: Path) -> list[dict[str, str]]:
    """Return the rows of a description file.

    Raises:
        DataError: its header is not BIRD's.
    """
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        if tuple(reader.fieldnames or ()) != DESCRIPTION_HEADER:
            raise DataError(f"{path}: the first line must be {','.join(DESCRIPTION_HEADER)}.")
        try:
            rows = list(reader)
        except csv.Error as error:
            raise DataError(f"{path}, line {reader.line_num}: {error}.") from None
    for row in rows:
        if None in row or None in row.values():
            raise DataError(f'{path}: the line of "{row["original_column_name"]}" has not 5 fields.')
    return rows

"""Column descriptions that `crosscheck prepare` had a backbone write: one JSON file per database."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from tasks.benchmarks.files.readers import read_json
from tasks.core.errors import DataError, first_problem
from tasks.core.files import atomic_write_text
from tasks.database.schema import ColumnDescription


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
    """Read what was generated for a database, by lower-cased table and column; nothing where no file is.

    Raises:
        DataError: the file is damaged or has another format; the message names the file to remove.
    """
    path = generated_path(home, digest)
    if not path.is_file():
        return {}
    try:
        found = GeneratedFile.model_validate(read_json(path))
    except ValidationError as error:
        raise DataError(
            f"{path} is damaged, or of another version ({first_problem(error)}). "
            "Remove it and run `crosscheck prepare` again."
        ) from None
    return {each.key: each for each in found.columns}


def write_generated(home: Path, digest: str, columns: Iterable[GeneratedColumn], *, database_id: str) -> Path:
    """Write the descriptions of a database, replacing earlier ones, and return the file."""
    path = generated_path(home, digest)
    content = GeneratedFile(database_id=database_id, columns=tuple(columns))
    atomic_write_text(path, content.model_dump_json(indent=1))
    return path

"""Column descriptions that `crosscheck prepare` had a backbone write: one JSON file per database."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from tasks.benchmarks.files.readers import read_json
from tasks.database.schema import ColumnDescription
from tasks.errors import DataError
from tasks.files import write_whole


class GeneratedColumn(BaseModel, frozen=True):
    """Descriptions of one column."""

    table: str
    column: str
    description: str
    value_description: str


class GeneratedFile(BaseModel, frozen=True):
    """Descriptions of one database; its name and the backbone's are for the reader of the file."""

    format: Literal[1] = 1
    database_id: str = ""
    made_by: str = ""
    columns: tuple[GeneratedColumn, ...]


def generated_path(home: Path, digest: str) -> Path:
    """Return the place of the descriptions generated for the database of that digest."""
    return home / "descriptions" / f"{digest}.json"


def read_generated(home: Path, digest: str) -> dict[tuple[str, str], ColumnDescription]:
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
        wrong = error.errors()[0]
        place = ".".join(map(str, wrong["loc"]))
        raise DataError(
            f"{path} is damaged, or of another version ({place}: {wrong['msg']}). "
            "Remove it and run `crosscheck prepare` again."
        ) from None
    return {
        (each.table.lower(), each.column.lower()): ColumnDescription(each.description, each.value_description)
        for each in found.columns
    }


def write_generated(
    home: Path,
    digest: str,
    descriptions: Mapping[tuple[str, str], ColumnDescription],
    *,
    database_id: str,
    made_by: str,
) -> Path:
    """Write the descriptions of a database by table and column, replacing earlier ones, and return the file."""
    path = generated_path(home, digest)
    columns = (
        GeneratedColumn(table=table, column=column, **asdict(described))
        for (table, column), described in descriptions.items()
    )
    content = GeneratedFile(database_id=database_id, made_by=made_by, columns=tuple(columns))
    write_whole(path, content.model_dump_json(indent=1))
    return path

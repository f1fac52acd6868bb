"""Column descriptions that `crosscheck prepare` had a backbone write: one JSON file per database."""

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.benchmarks.files.readers import read_json
from tasks.database.database import ColumnDescription
from tasks.errors import DataError

FORMAT = 1


def generated_path(home: Path, digest: str) -> Path:
    """Return the place of the descriptions generated for the database of that digest."""
    return home / "descriptions" / f"{digest}.json"


def read_generated(home: Path, digest: str) -> dict[tuple[str, str], ColumnDescription]:
    """Read what was generated for a database, by lower-cased table and column; nothing where no file is.

    Raises:
        DataError: the file is damaged; the message names the file to remove.
    """
    path = generated_path(home, digest)
    if not path.is_file():
        return {}
    content = read_json(path)
    try:
        if content["format"] != FORMAT:
            raise DataError(
                f"{path} has format {content['format']}, not {FORMAT}. Remove it and prepare again."
            )
        return {
            (item["table"].lower(), item["column"].lower()): ColumnDescription(
                description=item["description"], value_description=item["value_description"]
            )
            for item in content["columns"]
        }
    except (KeyError, TypeError, AttributeError):
        raise DataError(f"{path} is damaged. Remove it and run `crosscheck prepare` again.") from None


def write_generated(
    home: Path,
    digest: str,
    descriptions: Mapping[tuple[str, str], ColumnDescription],
    *,
    database_id: str,
    made_by: str,
) -> Path:
    """Write the descriptions of a database, replacing earlier ones, and return the file.

    Args:
        home: the working folder.
        digest: the database's digest.
        descriptions: by table and column.
        database_id: for the reader of the file.
        made_by: the backbone's name, for the reader of the file.
    """
    path = generated_path(home, digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {
        "format": FORMAT,
        "database_id": database_id,
        "made_by": made_by,
        "columns": [
            {
                "table": table,
                "column": column,
                "description": described.description,
                "value_description": described.value_description,
            }
            for (table, column), described in descriptions.items()
        ],
    }
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".writing-", suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(content, file, ensure_ascii=False, indent=1)
    Path(name).replace(path)
    return path

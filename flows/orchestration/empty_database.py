"""Prefect's SQLite database without content.

`python -m flows.orchestration.empty_database` writes the copy of its schema for the installed release.
"""

import asyncio
import os
import tempfile
from pathlib import Path

from tasks.database.sqlite.schema_copy import SchemaCopy
from tasks.files import atomic_create

SCHEMA = SchemaCopy("prefect", Path(__file__).parent)


def create_database(path: Path) -> bool:
    """Create Prefect's database if there is none and its schema is known; return whether there is one now.

    If another process creates it meanwhile, that one stays; one that is killed leaves none.
    """
    if not path.exists() and SCHEMA.file.exists():
        with atomic_create(path) as draft:
            SCHEMA.apply(draft)
    return path.exists()


def migrate(folder: Path) -> Path:
    """Have the installed release of Prefect make its database in a folder; return its file."""
    os.environ["PREFECT_HOME"] = str(folder)
    from prefect.server.database import provide_database_interface

    asyncio.run(provide_database_interface().create_db())
    return folder / "prefect.db"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        SCHEMA.write(migrate(Path(temporary)))

"""SQLite databases of libraries, made from a copy of their schema instead of by their migrations.

The migrations of Prefect and MLflow take as long as much of what the first command in a working folder does. A copy is
of one release and used with that release only; with another, the library migrates as it always does.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True)
class SchemaCopy:
    """The schema of a library's database, as SQL in a file named by the library and its release.

    Attributes:
        library: name of the distribution.
        folder: where the file is; there need not be one for the installed release.
    """

    library: str
    folder: Path

    @property
    def file(self) -> Path:
        """File of the installed release."""
        return self.folder / f"{self.library}-{version(self.library)}.sql"

    def apply(self, database: Path) -> None:
        """Make the tables in a new database; do nothing where there is no copy of the installed release."""
        if self.file.exists():
            with closing(sqlite3.connect(database)) as connection:
                connection.executescript(self.file.read_text(encoding="utf-8"))

    def write(self, database: Path) -> None:
        """Copy the schema of a database that the installed release has made, in the place of other releases' copies."""
        sql = dump(database)
        for old in self.folder.glob(f"{self.library}-*.sql"):
            old.unlink()
        self.file.write_text(sql, encoding="utf-8")


def dump(database: Path) -> str:
    """Return the SQL that makes a copy of a database."""
    with closing(sqlite3.connect(database)) as connection:
        return "\n".join(connection.iterdump()) + "\n"

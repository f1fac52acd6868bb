"""Empty SQLite databases of libraries, kept in the user's cache folder.

The migrations of Prefect and MLflow take seconds. They run once for each release of these libraries: the new database
is copied into the cache folder, and every later working folder begins with that copy.
"""

import logging
import shutil
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import platformdirs

from tasks.files import atomic_create

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Template:
    """The empty database of the installed release of a library.

    Attributes:
        library: name of the distribution.
    """

    library: str

    @property
    def file(self) -> Path:
        """Its file; there is none before the first use of a release."""
        return platformdirs.user_cache_path("crosscheck") / f"{self.library}-{version(self.library)}.sqlite"

    def copy(self, database: Path) -> bool:
        """Copy it to a new file and return whether there is one; a damaged template is removed."""
        try:
            shutil.copyfile(self.file, database)
            with closing(sqlite3.connect(database)) as connection:
                whole = bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
        except FileNotFoundError:
            return False
        except (OSError, sqlite3.Error):
            whole = False
        if not whole:
            log.warning("%s cannot be used and is made again", self.file)
            database.unlink(missing_ok=True)
            with suppress(OSError):
                self.file.unlink()
        return whole

    def keep(self, database: Path) -> None:
        """Keep a new database that has no content yet; where the cache folder cannot be written, none is kept."""
        try:
            with (
                atomic_create(self.file) as draft,
                closing(sqlite3.connect(database)) as source,
                closing(sqlite3.connect(draft)) as target,
            ):
                source.backup(target)
        except (OSError, sqlite3.Error) as error:
            log.info("no template of %s's database is kept: %s", self.library, error)

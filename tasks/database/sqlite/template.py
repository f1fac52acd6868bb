"""Empty SQLite databases of libraries, kept in the user's cache folder.

The migrations of Prefect and MLflow take seconds. They run once for each release of these libraries: the new database
is copied into the cache folder, and every later working folder begins with that copy.
"""

import logging
import sqlite3
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import platformdirs

from tasks.core.files import atomic_create

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Template:
    """The empty database of the installed release of a library."""

    library: str  # name of the distribution

    @property
    def file(self) -> Path:
        """Its file; there is none before the first use of a release."""
        return platformdirs.user_cache_path("crosscheck") / f"{self.library}-{version(self.library)}.sqlite"

    def copy(self, database: Path) -> bool:
        """Copy it to a new file and return whether there is one; a damaged template is removed.

        Raises:
            OSError: the new file cannot be written.
        """
        try:
            content = self.file.read_bytes()
        except OSError:
            return False
        if not _is_whole(content):
            log.warning("%s is damaged and is made again", self.file)
            with suppress(OSError):
                self.file.unlink()
            return False
        database.write_bytes(content)
        return True

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


def _is_whole(content: bytes) -> bool:
    without_wal = content[:18] + b"\x01\x01" + content[20:]  # in memory there is no write-ahead log
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(without_wal)
            return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
    except sqlite3.Error:
        return False

"""Where a database is, and what it held when it was opened."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tasks.core.errors import CrosscheckError, DatabaseUnavailableError


class Content(NamedTuple):
    """Content of a database when it was opened."""

    digest: str  # as `Engine.digest` returns it
    state: tuple[Any, ...] = ()  # as `Engine.state` returns it; () where the content is not checked again


@dataclass(frozen=True)  # without slots: it goes to workers pickled, which slots make slower
class Location:
    """Where a database is. Safe to print and to log: the password is in no representation."""

    engine: str  # name of the engine, as in `tasks.database.engine.ENGINES`
    address: str  # absolute path of a file or folder, or a URL without its password
    password: str = field(default="", repr=False)  # of a server; "" for none
    writable: bool = False  # whether a role that may write is accepted
    version: str = ""  # the user's name of the data's version, in place of counting rows; "" for none

    def __str__(self) -> str:
        return self.address

    @property
    def path(self) -> Path:
        """The file or folder."""
        return Path(self.address)


def unreadable(location: Location | Path, error: object) -> DatabaseUnavailableError:
    """Return the error that a database's files cannot be read now."""
    if isinstance(error, CrosscheckError):
        return DatabaseUnavailableError(f"{error} Then run the same command again.")
    return DatabaseUnavailableError(
        f"{location} cannot be read now ({error}). Make it readable again (its disk, its mount, the file itself), then "
        "run the same command again."
    )

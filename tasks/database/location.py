"""Where a database is."""

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)  # without slots: it goes to workers pickled, which slots make slower
class Location:
    """Where a database is. Safe to print and to log: the password is in no representation.

    Attributes:
        engine: name of the engine, as in `tasks.database.engine.ENGINES`.
        address: absolute path of a file or folder, or a URL without its password.
        password: of a server; "" for none.
        writable: whether a role that may write is accepted.
        version: the user's name of the data's version, in place of counting rows; "" for none.
    """

    engine: str
    address: str
    password: str = field(default="", repr=False)
    writable: bool = False
    version: str = ""

    def __str__(self) -> str:
        return self.address

    @property
    def path(self) -> Path:
        """The file or folder."""
        return Path(self.address)

"""The warehouse's DuckDB file: opened only while it is read or written, and shared by taking turns.

DuckDB lets one process write: a process that finds the file locked retries for a while.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from tasks.core.errors import CrosscheckError, DataError
from tasks.core.files import atomic_create
from tasks.database.sqlite_files import locked_folder
from tasks.results.warehouse.rows import UnknownFileError, check_tables, create_tables

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ONE_AT_A_TIME = (
    threading.Lock()
)  # DuckDB refuses to open a file for reading that this process has open for writing

_NO_EXTENSIONS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
"""DuckDB would download an extension to open another program's file."""


class WarehouseBusyError(CrosscheckError):
    """Another process held the warehouse for longer than we wait."""


@dataclass(frozen=True, slots=True)
class WarehouseFile:
    """A DuckDB file with the warehouse's tables."""

    path: Path  # the file; made by the first write
    wait_s: float = 30.0  # seconds to try while another process has it

    @contextmanager
    def reading(self) -> "Iterator[DuckDBPyConnection]":
        """Open an existing file for reading."""
        with self._open(read_only=True) as connection:
            yield connection

    @contextmanager
    def writing(self) -> "Iterator[DuckDBPyConnection]":
        """Open the file for one transaction, which ends with the block and is undone when the block fails."""
        with self._open(read_only=False) as connection:
            connection.begin()
            yield connection
            connection.commit()

    @contextmanager
    def exclusive(self) -> "Iterator[DuckDBPyConnection]":
        """Open the file so that no other process can, without a transaction."""
        with self._open(read_only=False) as connection:
            yield connection

    @contextmanager
    def _open(self, *, read_only: bool) -> "Iterator[DuckDBPyConnection]":
        import duckdb

        with _ONE_AT_A_TIME:
            connection = self._connect(read_only)
            try:
                check_tables(connection)
                yield connection
            except UnknownFileError as error:
                raise DataError(f"The results warehouse {self.path} {error}") from None
            except duckdb.Error as error:  # a full disk, for instance
                raise DataError(f"The results warehouse {self.path} cannot be used: {error}") from error
            finally:
                connection.close()

    def _connect(self, read_only: bool) -> "DuckDBPyConnection":
        import duckdb

        self.path.parent.mkdir(parents=True, exist_ok=True)
        attempts = Retrying(
            retry=retry_if_exception_type(duckdb.Error),
            stop=stop_after_delay(self.wait_s),
            wait=wait_random_exponential(multiplier=0.02, max=1.0),
            reraise=True,
        )
        try:
            return attempts(self._connect_once, read_only)
        except duckdb.Error as error:
            raise WarehouseBusyError(self._busy(str(error))) from error

    def _connect_once(self, read_only: bool) -> "DuckDBPyConnection":
        """Connect; raise DuckDB's error if another process has the file, and a DataError for any other problem."""
        import duckdb

        try:
            if not read_only and not self.path.exists():
                self._create()
            before = self._inode()
            connection = duckdb.connect(str(self.path), read_only=read_only, config=_NO_EXTENSIONS)
        except (duckdb.Error, OSError) as error:
            if "Conflicting lock" in str(error):
                raise
            raise DataError(
                f"The results warehouse {self.path} cannot be opened: {str(error).strip().splitlines()[0]} "
                "If the file is damaged or not Crosscheck's, move it away with its .wal: a new one is created. "
                "MLflow still has the figures of earlier runs, and replies are kept elsewhere."
            ) from error
        if before == self._inode():
            return connection
        connection.close()  # the file was replaced meanwhile by one that takes less room
        return self._connect_once(read_only)

    def _create(self) -> None:
        """Create a database without runs, whole or not at all: DuckDB locks a file only after it has created it."""
        import duckdb

        with locked_folder(self.path.parent):
            if self.path.exists():
                return
            self.path.with_name(f"{self.path.name}.wal").unlink(missing_ok=True)  # of a file that was removed
            with (
                atomic_create(self.path) as draft,
                duckdb.connect(str(draft), config=_NO_EXTENSIONS) as connection,
            ):
                create_tables(connection)
                connection.close()

    def _inode(self) -> int | None:
        return self.path.stat().st_ino if self.path.exists() else None

    def _busy(self, message: str) -> str:
        holder = re.search(r"held in (.{1,500}?\(PID \d+\))", message)
        return (
            f"The results warehouse {self.path} is in use by {holder.group(1) if holder else 'another process'} "
            f"and was not released for {self.wait_s:g} s. Close that program (a DuckDB shell or a notebook keeps "
            "it open) and run the same command again."
        )

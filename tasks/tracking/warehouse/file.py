"""The warehouse's DuckDB file: opened only while it is read or written, and shared by taking turns.

DuckDB lets one process write: whoever finds the file taken tries again for a while.
"""

import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.errors import CrosscheckError, DataError
from tasks.tracking.warehouse.rows import TABLES

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

SCHEMA_VERSION = 1
"""Raised whenever a table changes."""

_RUNS = (
    "run_id VARCHAR, benchmark VARCHAR, backbone VARCHAR, pipeline VARCHAR, revision VARCHAR, rule VARCHAR, "
    "started TIMESTAMP, finished TIMESTAMP, status VARCHAR, seconds DOUBLE, questions BIGINT, scored BIGINT, "
    "answered BIGINT, ex_correct DOUBLE, ex_total DOUBLE, run VARCHAR, summary VARCHAR"
)
_LATER = ("attempts BIGINT", "samples BIGINT[]")
"""Columns of `questions` that files of the same schema version may lack: absent means asked once."""

_ONE_AT_A_TIME = (
    threading.Lock()
)  # DuckDB refuses to open a file for reading that this process has open for writing


class WarehouseBusyError(CrosscheckError):
    """Another process held the warehouse for longer than we wait."""


@dataclass(frozen=True, slots=True)
class WarehouseFile:
    """A DuckDB file with the warehouse's tables.

    Attributes:
        path: the file; made by the first write.
        wait_s: seconds to try while another process has it.
    """

    path: Path
    wait_s: float = 30.0

    @contextmanager
    def reading(self) -> "Iterator[DuckDBPyConnection]":
        """Open an existing file for reading.

        Raises:
            WarehouseBusyError: another process writes to it for longer than `wait_s`.
            DataError: it was written by another release, or is none of ours.
        """
        with self._open(read_only=True) as connection:
            yield connection

    @contextmanager
    def writing(self) -> "Iterator[DuckDBPyConnection]":
        """Open the file for one transaction, which ends with the block and is undone when the block fails.

        Raises:
            WarehouseBusyError: another process has it for longer than `wait_s`.
            DataError: it was written by another release, or is none of ours.
        """
        with self._open(read_only=False) as connection:
            connection.begin()
            _make_tables(connection)
            yield connection
            connection.commit()

    @contextmanager
    def _open(self, *, read_only: bool) -> "Iterator[DuckDBPyConnection]":
        import duckdb

        with _ONE_AT_A_TIME:
            connection = self._connect(read_only)
            try:
                self._check_version(connection)
                yield connection
            except duckdb.Error as error:  # a full disk, for instance
                raise DataError(f"The results warehouse {self.path} cannot be used: {error}") from error
            finally:
                connection.close()

    def _connect(self, read_only: bool) -> "DuckDBPyConnection":
        import duckdb

        self.path.parent.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + self.wait_s
        pause = 0.02
        while True:
            try:
                return duckdb.connect(str(self.path), read_only=read_only)
            except duckdb.Error as error:
                if "Conflicting lock" not in str(error):
                    raise DataError(f"The results warehouse {self.path} cannot be opened: {error}") from error
                if time.monotonic() > deadline:
                    raise WarehouseBusyError(self._busy(str(error))) from error
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, 1.0)

    def _busy(self, message: str) -> str:
        holder = re.search(r"held in (.+?\(PID \d+\))", message)
        return (
            f"The results warehouse {self.path} is in use by {holder.group(1) if holder else 'another process'} "
            f"and was not let go for {self.wait_s:g} s. Close that program (a DuckDB shell or a notebook keeps "
            "it open) and run the same command again."
        )

    def _check_version(self, connection: "DuckDBPyConnection") -> None:
        tables = {row[0] for row in connection.execute("SHOW TABLES").fetchall()}
        if not tables:
            return
        ours = "crosscheck_schema" in tables
        found = connection.execute("SELECT version FROM crosscheck_schema").fetchone() if ours else None
        if found is None or found[0] != SCHEMA_VERSION:
            origin = f"has schema {found[0]}" if found else "was not written by Crosscheck"
            raise DataError(
                f"The results warehouse {self.path} {origin}; this release reads and writes schema "
                f"{SCHEMA_VERSION}. Move the file away, or use the release that wrote it."
            )


def _make_tables(connection: "DuckDBPyConnection") -> None:
    connection.execute(f"CREATE TABLE IF NOT EXISTS crosscheck_schema AS SELECT {SCHEMA_VERSION} AS version")
    connection.execute(f"CREATE TABLE IF NOT EXISTS runs ({_RUNS})")
    for table, columns in TABLES.items():
        connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
    for column in _LATER:  # a file that was written before they were
        connection.execute(f"ALTER TABLE questions ADD COLUMN IF NOT EXISTS {column}")

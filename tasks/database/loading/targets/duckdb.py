"""A DuckDB file that is written: a new file, which takes the old one's place when it is complete."""

import re
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from tasks.core.errors import ConfigurationError
from tasks.database.duck.structure import DIALECT, HERE
from tasks.database.loading.plan import Kind, LoadedTable, LoadPlan, Source
from tasks.database.loading.target import CHUNK, MARKED, MARKING, TARGETS, Mark, Target, TargetContents
from tasks.database.location import Location
from tasks.database.schema import ForeignKey

if TYPE_CHECKING:
    import duckdb


@TARGETS.register("duckdb")
class DuckTarget(Target):
    """One file."""

    dialect = DIALECT
    types: ClassVar[dict[Kind, str]] = {
        "integer": "BIGINT",
        "real": "DOUBLE",
        "boolean": "BOOLEAN",
        "date": "DATE",
        "timestamp": "TIMESTAMP",
        "text": "VARCHAR",
        "blob": "BLOB",
    }

    def __init__(self, location: Location) -> None:
        import duckdb

        self.errors = (duckdb.Error, OSError)
        self._path = location.path

    def held(self) -> TargetContents | None:
        """Return what the file holds; None where there is none."""
        if self._path.is_dir():
            raise ConfigurationError(
                f"{self._path} is a folder. Name a file: duckdb:///folder/{{database}}.duckdb"
            )
        if not self._path.exists():
            return None
        import duckdb

        with duckdb.connect(str(self._path), read_only=True) as connection:
            tables = [
                name
                for (name,) in connection.execute(
                    f"SELECT table_name FROM duckdb_tables() WHERE {HERE} UNION ALL "
                    f"SELECT view_name FROM duckdb_views() WHERE {HERE}"
                ).fetchall()
            ]
            return TargetContents.found(tables, lambda: connection.execute(MARKED).fetchone())

    def write(
        self,
        source: Source,
        plan: LoadPlan,
        mark: Mark,
        held: TargetContents | None,
        on_rows: Callable[[int], None],
    ) -> tuple[str, ...]:
        """Write a new file and move it to its place."""
        import duckdb

        self._path.parent.mkdir(parents=True, exist_ok=True)
        half = self._path.with_name(self._path.name + ".loading")
        for old in (half, half.with_name(half.name + ".wal")):
            old.unlink(missing_ok=True)
        placed: set[str] = set()
        made: list[ForeignKey] = []
        with duckdb.connect(str(half)) as connection:
            connection.begin()
            for table in plan.tables:
                # a key is declared with its table only, so neither a circle nor a key to the table itself can be
                keys = [key for key in plan.foreign_keys if key.table == table.name and key.parent in placed]
                connection.execute(self.creation(table, *map(self.reference, keys)))
                placed.add(table.name)
                made += keys
                self._copy(connection, source, table, on_rows)
                for comment in self.comments(table):
                    connection.execute(comment)
            connection.execute(MARKING[0])
            connection.execute(MARKING[1].replace("%s", "?"), [mark.text])
            connection.commit()
        # the log of the file that goes does not fit the one that comes
        self._path.with_name(self._path.name + ".wal").unlink(missing_ok=True)
        half.replace(self._path)
        return tuple(
            f"Without the foreign key {key.table} ({', '.join(key.columns)}) to {key.parent}: DuckDB has no such keys."
            for key in plan.foreign_keys
            if key not in made
        )

    def grant(self, role: str) -> None:
        """Refuse: a file has no roles."""
        raise ConfigurationError(f"--reader {role}: a DuckDB file has no roles. Leave the option out.")

    def rights(self, error: BaseException | None = None) -> str:
        """Return what is needed, or what DuckDB said."""
        if error is None:
            return "The folder has to be writable."
        message = re.sub(r"\s+", " ", str(error))
        if "lock" in message.lower():
            return f"another process has opened the file. Close it. DuckDB says: {message}"
        return f"DuckDB says: {message}"

    def close(self) -> None:
        """Do nothing: the file is open only while it is read or written."""

    def _copy(
        self,
        connection: "duckdb.DuckDBPyConnection",
        source: Source,
        table: LoadedTable,
        on_rows: Callable[[int], None],
    ) -> None:
        read = {"date": "VARCHAR", "timestamp": "VARCHAR"}
        chosen = ", ".join(
            f"unnest(?::{read.get(column.kind, self.types[column.kind])}[])::{self.types[column.kind]}"
            for column in table.columns
        )
        sql = f"INSERT INTO {self.name(table.name)} SELECT {chosen}"
        rows = source.rows(table)
        while chunk := list(islice(rows, CHUNK)):
            connection.execute(sql, list(map(list, zip(*chunk, strict=True))))
            on_rows(len(chunk))

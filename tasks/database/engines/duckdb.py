"""DuckDB: one file opened read-only, or a folder of Parquet and CSV files."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tasks.core.errors import DataError
from tasks.core.files import file_digest, file_state
from tasks.database.duck.connection import DuckConnection
from tasks.database.duck.opening import files_of, is_database, open_restrained, reading
from tasks.database.duck.structure import DIALECT, read_structure
from tasks.database.engine import ENGINES, Connection, Engine, StreamedValues, Structure, Values
from tasks.database.identifiers import quoted
from tasks.database.limits import Limits
from tasks.database.location import Location
from tasks.database.plain import number

if TYPE_CHECKING:
    import duckdb

AT_ONCE = 10_000
_IS_NUMBER = (
    "{0} IS NOT NULL AND regexp_full_match(typeof({0}), "
    "'(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*)')"
)


class DuckDb(Engine):
    """The engine of DuckDB files, and of folders of Parquet and CSV files."""

    name = "duckdb"
    dialect = DIALECT
    schemes = ("duckdb",)
    endings: ClassVar[tuple[str, ...]] = (".duckdb", ".ddb")

    def product(self, location: Location) -> str:
        """Return DuckDB with the version of its library."""
        import duckdb

        return f"DuckDB {duckdb.__version__}"

    def has_file(self, path: Path) -> bool:
        """Return whether a path is a DuckDB file or a folder of Parquet and CSV files."""
        return super().has_file(path) or is_database(path)

    def exists(self, location: Location) -> bool:
        """Return whether the file or folder is there."""
        return location.path.exists()

    def require(self, location: Location, database_id: str) -> None:
        """Make sure that DuckDB can open it."""
        path = location.path
        if not path.exists():
            raise DataError(
                f'Database "{database_id}": {path} does not exist. Check the benchmark\'s `databases` folder and the '
                "data location (--data or CROSSCHECK_DATA)."
            )
        if path.is_dir() and not files_of(path):
            raise DataError(f'Database "{database_id}": {path} is a folder without Parquet or CSV files.')
        open_restrained(path).close()

    def digest(self, location: Location) -> str:
        """Return a sha256 over DuckDB's version and every file, a write-ahead log included."""
        path = location.path
        log = path.with_name(path.name + ".wal")
        files = files_of(path) if path.is_dir() else [path, *([log] if log.is_file() else [])]
        digest = hashlib.sha256(self.product(location).lower().encode())
        for file in files:
            digest.update(f"\n{file.name if path.is_dir() else ''} {file_digest(file)}".encode())
        return digest.hexdigest()

    def state(self, location: Location) -> tuple[Any, ...]:
        """Return numbers, sizes and times of change of the file, or of every file of the folder."""
        path = location.path
        if not path.is_dir():
            return file_state(path)
        try:
            return tuple((file.name, *file_state(file)) for file in sorted(path.iterdir()))
        except OSError:
            return ()

    def read(self, location: Location, database_id: str, sample_rows: int) -> Structure:
        """Read tables, comments, keys and the first rows."""
        with reading(location.path, database_id) as connection:
            return read_structure(connection, sample_rows, views=location.path.is_dir())

    def connect(self, location: Location, limits: Limits) -> Connection:
        """Open a connection that only reads."""
        return DuckConnection(location.path, limits)

    def values(self, location: Location) -> Values:
        """Open its values."""
        return DuckValues(open_restrained(location.path))


class DuckValues(StreamedValues):
    """The values of a DuckDB database."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
        import duckdb

        self.errors = (duckdb.Error,)
        self._connection = connection

    def texts(self, table: str, column: str, longest: int) -> Iterator[tuple[str, int]]:
        """Yield the different texts of a column of text; other types have none."""
        name = quoted(column, DIALECT)
        yield from self._rows(
            f"SELECT {name}::VARCHAR, count(*) FROM {quoted(table, DIALECT)} WHERE (typeof({name}) = 'VARCHAR' "
            f"OR typeof({name}) LIKE 'ENUM%') AND length({name}::VARCHAR) BETWEEN 1 AND {longest} GROUP BY 1"
        )

    def numbers(self, table: str, column: str, most: int) -> Iterator[int | float]:
        """Yield different numbers of a column."""
        name = quoted(column, DIALECT)
        source = f"{quoted(table, DIALECT)} WHERE {_IS_NUMBER.format(name)}"
        for (value,) in self._rows(f"SELECT DISTINCT {name} FROM {source} LIMIT {most}"):
            yield value if isinstance(value, int | float) else number(value)

    def frequent(self, table: str, column: str, among: int, most: int) -> Iterator[int | float]:
        """Yield the most frequent numbers among the first of a column."""
        name = quoted(column, DIALECT)
        source = (
            f"(SELECT {name} FROM {quoted(table, DIALECT)} WHERE {_IS_NUMBER.format(name)} LIMIT {among})"
        )
        for (value,) in self._rows(
            f"SELECT {name} FROM {source} GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT {most}"
        ):
            yield value if isinstance(value, int | float) else number(value)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def _rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        found = self._connection.execute(sql)
        while batch := found.fetchmany(AT_ONCE):
            yield from batch


ENGINES.register("duckdb")(DuckDb())

"""DuckDB: one file, or a folder of Parquet and CSV files as one database of views.

A connection reads only: the file is opened read-only, DuckDB may open no other file and no network address, loads no
extension, and its settings are locked. A file that DuckDB reads as a view stays readable, and nothing else.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tasks.core.errors import DataError
from tasks.core.files import file_digest, file_state, require_file, shown_files
from tasks.core.lazy import LazyModule
from tasks.core.records import Status
from tasks.database.dialects import quoted
from tasks.database.engine import ENGINES, Connection, Cursor, Engine, QueryDeadline, Values, schema_of
from tasks.database.limits import ONLY_QUERIES, OUT_OF_MEMORY, SEVERAL_STATEMENTS, Limits, RefusedError
from tasks.database.location import Location, unreadable
from tasks.database.plain import plain_row, reread_json
from tasks.database.sandbox.runner import in_sandbox
from tasks.database.sandbox.session import SqlSession
from tasks.database.schema import Schema

if TYPE_CHECKING:
    import duckdb
else:
    duckdb = LazyModule("duckdb")


MAGIC = b"DUCK"
"""At byte 8 of a DuckDB file."""
TABLES = frozenset({".parquet", ".csv", ".tsv"})
"""Endings of files that are tables."""
DIALECT = "duckdb"
FETCHED_ROWS = 10_000
_IS_NUMBER = (
    "{0} IS NOT NULL AND system.main.regexp_full_match(system.main.typeof({0}), "
    "'(U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|DECIMAL.*)')"
)


class _DuckDb(Engine):
    """The engine of DuckDB files, and of folders of Parquet and CSV files."""

    name = "duckdb"
    dialect = DIALECT
    schemes = ("duckdb",)
    endings: ClassVar[tuple[str, ...]] = (".duckdb", ".ddb")

    def product(self, location: Location) -> str:
        return f"DuckDB {duckdb.__version__}"

    def has_file(self, path: Path) -> bool:
        """Return whether a path has its ending, or is a DuckDB file or a folder with Parquet or CSV files."""
        if super().has_file(path):
            return True
        if path.is_dir():
            return bool(files_of(path))
        try:
            require_file(path)
            with path.open("rb") as file:
                file.seek(8)
                return file.read(len(MAGIC)) == MAGIC
        except OSError:
            return False

    def exists(self, location: Location) -> bool:
        return location.path.exists()

    def require(self, location: Location, database_id: str) -> None:
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
        """Return a sha256 over DuckDB's version and every file, a write-ahead log included.

        The names of files count in a folder only: there they name the views.
        """
        path = location.path
        is_folder = path.is_dir()
        files = files_of(path) if is_folder else [path]
        log = path.with_name(path.name + ".wal")
        if not is_folder and log.is_file():
            files = [path, log]
        digest = hashlib.sha256(self.product(location).lower().encode())
        for file in files:
            digest.update(f"\n{file.name if is_folder else ''} {file_digest(file)}".encode())
        return digest.hexdigest()

    def state(self, location: Location) -> tuple[Any, ...]:
        path = location.path
        if not path.is_dir():
            return file_state(path)
        try:
            return tuple((file.name, *file_state(file)) for file in sorted(path.iterdir()))
        except OSError:
            return ()

    def read(self, location: Location, database_id: str, sample_rows: int) -> Schema:
        return in_sandbox(read_structure, location, database_id, sample_rows)

    def connect(self, location: Location, limits: Limits) -> Connection:
        return _Connection(location.path, limits)

    def values(self, location: Location) -> Values:
        return _Values(open_restrained(location.path))


class _Values(Values):
    dialect = DIALECT
    count = "system.main.count(*)"

    def __init__(self, connection: "duckdb.DuckDBPyConnection") -> None:
        self.errors = (duckdb.Error,)
        self._connection = connection

    def different_texts(self, table: str, column: str, longest: int) -> str:
        name = quoted(column, DIALECT)
        return (
            f"SELECT {name}::VARCHAR, system.main.count(*) FROM {quoted(table, DIALECT)} "
            f"WHERE (system.main.typeof({name}) = 'VARCHAR' OR system.main.typeof({name}) LIKE 'ENUM%') "
            f"AND system.main.length({name}::VARCHAR) BETWEEN 1 AND {longest} GROUP BY 1"
        )

    def is_number(self, table: str, column: str) -> str:
        return _IS_NUMBER.format(quoted(column, DIALECT))

    def close(self) -> None:
        self._connection.close()

    def rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        result = self._connection.execute(sql)
        while batch := result.fetchmany(FETCHED_ROWS):
            yield from batch


ENGINES.register("duckdb")(_DuckDb())


def files_of(folder: Path) -> list[Path]:
    """Return the Parquet and CSV files of a folder, by name."""
    return [path for path in shown_files(folder, "*") if path.is_file() and path.suffix.lower() in TABLES]


def open_restrained(path: Path, memory_mb: int = 256) -> "duckdb.DuckDBPyConnection":
    """Open a file or a folder for reading only, with so many MiB of memory for DuckDB."""
    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "memory_limit": f"{memory_mb}MiB",
        "temp_directory": "",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "python_enable_replacements": "false",
    }
    try:
        if path.is_dir():
            connection = duckdb.connect(":memory:", config=settings)
            _create_views(connection, path)
        else:
            connection = duckdb.connect(str(path), read_only=True, config=settings)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    except duckdb.Error as error:
        raise DataError(_message(path, error)) from error
    return connection


def _create_views(connection: "duckdb.DuckDBPyConnection", folder: Path) -> None:
    """Make a view of each file of a folder, and allow the connection to read these files only."""
    files = files_of(folder)
    file_of_table: dict[str, Path] = {}
    for file in files:
        table = file.stem.lower()
        if table in file_of_table:
            raise DataError(
                f"{folder}: {file_of_table[table].name} and {file.name} would be the same table. Move one of them away."
            )
        file_of_table[table] = file
    paths = ", ".join(_text(str(file)) for file in files)
    connection.execute(f"SET allowed_paths = [{paths}]")
    for file in files:
        try:
            source = _text(str(file))
            is_parquet = file.suffix.lower() == ".parquet"
            reader = f"read_parquet({source})" if is_parquet else _csv_reader(file, file_state(file))
            connection.execute(f"CREATE VIEW {quoted(file.stem, DIALECT)} AS FROM {reader}")
        except duckdb.Error as error:
            raise DataError(
                f"{file} cannot be read by DuckDB ({first_line(error)}). Correct the file, or move it away. A CSV file "
                "is in UTF-8, with one kind of line end and as many values in each row as in the first."
            ) from error


@lru_cache(maxsize=1024)
def _csv_reader(file: Path, state: tuple[int, ...]) -> str:
    """Return DuckDB's call that reads a CSV file, with types and quotes that fit all rows, not only a sample of them.

    `state` is only a key of the cache: a file that has changed is read again.
    """
    import duckdb

    path = _text(str(file))
    with duckdb.connect(":memory:", config={"threads": 1}) as connection:
        dialect = connection.execute(
            "SELECT Delimiter, Quote, Escape, Comment, SkipRows, HasHeader, Columns, DateFormat, TimestampFormat "
            f"FROM sniff_csv({path}, sample_size = -1)"
        ).fetchone()
    assert dialect is not None
    delimiter, quote, escape, comment, skip, header, columns, date_format, timestamp_format = dialect
    # of rows of different lengths, DuckDB takes the first ones for lines to skip, or each for one value
    with file.open(encoding="utf-8", errors="replace") as text:
        skipped = [line for line in islice(text, skip) if delimiter in line]
    if skipped or (len(columns) == 1 and quote == "(empty)" and "," in columns[0]["name"]):
        raise duckdb.InvalidInputException("its rows have different numbers of values")
    options = {"delim": delimiter, "quote": quote, "escape": escape, "comment": comment}
    formats = {"dateformat": date_format, "timestampformat": timestamp_format}
    options |= {name: pattern for name, pattern in formats.items() if pattern}
    # sniff_csv writes "(empty)" for a character that the file does not use
    texts = [f"{name} = {_text('' if value == '(empty)' else value)}" for name, value in options.items()]
    types = ", ".join(f"{_text(column['name'])}: {_text(column['type'])}" for column in columns)
    return (
        f"read_csv({path}, auto_detect = false, skip = {skip}, header = {header}, columns = {{{types}}}, "
        f"{', '.join(texts)})"
    )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def first_line(error: BaseException) -> str:
    """Return the first line of DuckDB's message."""
    return str(error).strip().partition("\n")[0]


def _message(path: Path, error: Exception) -> str:
    """Return why a file cannot be opened, and what a user can do."""
    text = first_line(error)
    if "lock" in text.lower():
        return (
            f"{path} is locked by another process, which has opened it for writing. Close that process, or evaluate "
            f"a copy of the file. DuckDB says: {text}"
        )
    return (
        f"{path} cannot be opened by DuckDB: {text}. A file of a newer DuckDB looks like this, and so does one that "
        "broke off."
    )


class _Connection(Connection):
    """A connection to one file or folder. Every query gets a session of its own; `current` is False after a crash."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self.errors = (duckdb.Error, RefusedError, UnicodeDecodeError)
        self._path = path
        self._crashed = False
        self._connection = open_restrained(path, limits.memory_mb // 2)

    def execute(self, sql: str, deadline: QueryDeadline) -> Cursor:
        statements = self._connection.extract_statements(sql)
        if len(statements) > 1:
            raise RefusedError(SEVERAL_STATEMENTS)
        if statements and not _is_query(statements[0]):
            raise RefusedError(ONLY_QUERIES.format("a statement that is no query"))
        return _Cursor(self._connection.cursor(), statements, deadline)

    def explain(self, error: BaseException) -> tuple[Status, str]:
        # a database is unusable after either error
        self._crashed = isinstance(error, duckdb.FatalException | duckdb.InternalException)
        if isinstance(error, duckdb.InterruptException):
            return "timeout", ""
        if isinstance(error, duckdb.OutOfMemoryException):
            self.exhausted = True
            return "too_large", OUT_OF_MEMORY
        has_no_class_of_its_own = type(error) is duckdb.Error
        is_corrupt = has_no_class_of_its_own and "Corrupt database" in str(error)
        if is_corrupt or isinstance(error, duckdb.IOException | duckdb.SerializationException):
            raise unreadable(self._path, first_line(error)) from error
        return "error", str(error)

    def current(self) -> bool:
        return not self._crashed

    def close(self) -> None:
        self._connection.close()


def _is_query(statement: Any) -> bool:
    try:
        return bool(statement.type == duckdb.StatementType.SELECT)
    except ValueError:  # the Python package does not know every kind (UPDATE EXTENSIONS)
        return False


class _Cursor(Cursor):
    """A query that DuckDB interrupts at its deadline; rows are computed as they are fetched."""

    def __init__(
        self, session: "duckdb.DuckDBPyConnection", statements: list[Any], deadline: QueryDeadline
    ) -> None:
        self._session = session
        self._timer = threading.Timer(deadline.left, session.interrupt)
        self._timer.daemon = True
        self.columns = None
        if not statements:
            return
        self._timer.start()
        try:
            session.execute(statements[0])
        except BaseException:
            self.close()
            raise
        described = session.description or []
        self.columns = tuple(entry[0] for entry in described)
        self._json_columns = [index for index, entry in enumerate(described) if str(entry[1]) == "JSON"]

    def fetch(self, rows: int) -> list[tuple[Any, ...]]:
        batch = [plain_row(row) for row in self._session.fetchmany(rows)]
        return [self._with_json(row) for row in batch] if self._json_columns else batch

    def close(self) -> None:
        self._timer.cancel()
        self._session.close()

    def _with_json(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        cells = list(row)
        for index in self._json_columns:
            if isinstance(cells[index], str):
                cells[index] = reread_json(cells[index])
        return tuple(cells)


_SCHEMA = "database_name = system.main.current_database() AND schema_name = system.main.current_schema()"
HERE = f"{_SCHEMA} AND NOT internal"
"""The schema that is read. Names are qualified: a file may have macros with the names of DuckDB's functions."""
_TABLES = f"""
SELECT name, comment, is_view FROM (
  SELECT table_name AS name, comment, false AS is_view, table_oid AS place FROM system.main.duckdb_tables() WHERE {HERE}
  UNION ALL SELECT view_name, comment, NOT $1, NULL FROM system.main.duckdb_views() WHERE {HERE}
) ORDER BY place NULLS LAST, name
"""
_COLUMNS = f"""
SELECT table_name, column_name, data_type, comment FROM system.main.duckdb_columns() WHERE {HERE} ORDER BY column_index
"""
_KEYS = f"""
SELECT table_name, constraint_index, constraint_column_names, constraint_type, referenced_table, referenced_column_names
FROM system.main.duckdb_constraints() WHERE {_SCHEMA} AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY')
ORDER BY table_oid, constraint_index
"""


def read_structure(session: SqlSession, database_id: str, sample_rows: int) -> Schema:
    """In a worker, read tables with their first `sample_rows` rows, views, and keys.

    In a folder, each view is a file and is read as a table.
    """
    path = session.location.path
    try:
        with closing(open_restrained(path)) as connection:

            def rows_of(sql: str, *parameters: object) -> list[Any]:
                return connection.execute(sql, parameters).fetchall()

            # the catalog has a row per key, with lists of columns; `schema_of` takes a row per column of a key
            keys = (
                (table, constraint, column, parent if kind == "FOREIGN KEY" else None, parent_column)
                for table, constraint, columns, kind, parent, parent_columns in rows_of(_KEYS)
                for column, parent_column in zip_longest(columns, parent_columns)  # none for a primary key
            )
            return schema_of(
                database_id,
                DIALECT,
                rows_of(_TABLES, path.is_dir()),
                rows_of(_COLUMNS),
                keys,
                first_rows=lambda table: rows_of(
                    f"SELECT * FROM {quoted(table.name, DIALECT)} LIMIT {sample_rows}"
                ),
            )
    except duckdb.Error as error:
        raise DataError(f'Database "{database_id}": DuckDB cannot read {path} ({error}).') from error

"""Opening of a DuckDB file, or of a folder of Parquet and CSV files as one database of views.

A connection reads only: the file is opened read-only, DuckDB may open no other file and no network address, loads no
extension, and its settings are locked. A file that DuckDB reads as a view stays readable, and nothing else.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.core.errors import DataError
from tasks.database.identifiers import quoted

if TYPE_CHECKING:
    import duckdb

MAGIC = b"DUCK"
"""At byte 8 of a DuckDB file."""
READERS = {".parquet": "read_parquet", ".csv": "read_csv", ".tsv": "read_csv"}
DIALECT = "duckdb"


def is_database(path: Path) -> bool:
    """Return whether a path is a DuckDB file by its content, or a folder with a Parquet or CSV file in it."""
    if path.is_dir():
        return bool(files_of(path))
    try:
        with path.open("rb") as file:
            return file.read(12)[8:] == MAGIC
    except OSError:
        return False


def files_of(folder: Path) -> list[Path]:
    """Return the Parquet and CSV files of a folder, by name."""
    return sorted(path for path in folder.iterdir() if path.is_file() and path.suffix.lower() in READERS)


def open_restrained(path: Path, memory_mb: int = 256) -> "duckdb.DuckDBPyConnection":
    """Open a file or a folder for reading only, with so many MiB of memory for DuckDB.

    Raises:
        DataError: it cannot be opened; the message says why.
    """
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "memory_limit": f"{memory_mb}MiB",
        "max_temp_directory_size": "0B",
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
        raise DataError(_why(path, error)) from error
    return connection


@contextmanager
def reading(path: Path, database_id: str) -> Iterator["duckdb.DuckDBPyConnection"]:
    """Open a file or a folder for as long as the block runs; DuckDB's errors become `DataError`."""
    import duckdb

    connection = open_restrained(path)
    try:
        yield connection
    except duckdb.Error as error:
        raise DataError(f'Database "{database_id}": DuckDB cannot read {path} ({error}).') from error
    finally:
        connection.close()


def _create_views(connection: "duckdb.DuckDBPyConnection", folder: Path) -> None:
    files = files_of(folder)
    names: dict[str, Path] = {}
    for file in files:
        if (before := names.setdefault(file.stem.lower(), file)) != file:
            raise DataError(
                f"{folder}: {before.name} and {file.name} would be the same table. Move one of them away."
            )
    paths = ", ".join(_text(str(file)) for file in files)
    connection.execute(f"SET allowed_paths = [{paths}]")
    for file in files:
        reader = READERS[file.suffix.lower()]
        connection.execute(
            f"CREATE VIEW {quoted(file.stem, DIALECT)} AS SELECT * FROM {reader}({_text(str(file))})"
        )


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def first_line(error: BaseException) -> str:
    """Return the first line of DuckDB's message."""
    return str(error).strip().partition("\n")[0]


def _why(path: Path, error: Exception) -> str:
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

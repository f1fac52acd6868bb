"""A database of a benchmark: its file, its schema, and whether the file is unchanged."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tasks.database.files import file_digest, read_digest, require_database
from tasks.database.introspection import ColumnDescription, read_schema
from tasks.database.schema import ForeignKey, Schema
from tasks.errors import DataError

__all__ = ["ColumnDescription", "Database", "open_database", "verify_unchanged"]


@dataclass(frozen=True)
class Database:
    """One database, read once.

    Attributes:
        id: the benchmark's name of it.
        path: its file.
        schema: tables, columns, keys, sample rows.
        digest: sha256 of the file when it was opened; "" when there is none and only the schema is known.
    """

    id: str
    path: Path
    schema: Schema
    digest: str

    @property
    def executable(self) -> bool:
        """Whether there is a file to execute SQL on; otherwise only the schema is known."""
        return bool(self.digest)

    @property
    def dialect(self) -> str:
        """Name of its SQL dialect, as sqlglot spells it."""
        return self.schema.dialect


def open_database(
    path: Path,
    database_id: str,
    *,
    sample_rows: int = 3,
    descriptions: Mapping[tuple[str, str], ColumnDescription] | None = None,
    foreign_keys: Iterable[ForeignKey] = (),
) -> Database:
    """Read a SQLite database's schema and digest, without changing or creating anything on disk.

    Args:
        path: its file.
        database_id: the benchmark's name of it.
        sample_rows: rows of each table to keep as samples.
        descriptions: by lower-cased (table, column).
        foreign_keys: further keys than those it declares; names are compared without case, and a key with a
            name that the database does not have is dropped.

    Raises:
        DataError: no such file, not a SQLite database, one that another program is changing, or one without
            tables.
    """
    path = Path(path)
    require_database(path, database_id)
    schema = read_schema(
        path, database_id, sample_rows=sample_rows, descriptions=descriptions or {}, foreign_keys=foreign_keys
    )
    if not schema.tables:
        raise DataError(
            f'Database "{database_id}": {path} has no tables. It may have been created by a program that '
            "opened a wrong path; fetch the file again, or check the benchmark's `databases` folder."
        )
    return Database(database_id, path, schema, file_digest(path))


def verify_unchanged(databases: Iterable[Database]) -> tuple[str, ...]:
    """Return the ids of databases whose file has changed since it was opened, or is missing.

    Reads every file in full, also where its modification time is the same.
    """
    return tuple(
        database.id
        for database in databases
        if not database.path.is_file() or read_digest(database.path) != database.digest
    )

"""A database of a benchmark: where it is, its schema, and whether its content is unchanged."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tasks.core.errors import CrosscheckError, DatabaseUnavailableError, DataError
from tasks.database.engine import engine_of
from tasks.database.foreign_keys import united
from tasks.database.location import Content, Location, unreadable
from tasks.database.schema import LOAD_MARK, Descriptions, ForeignKey, Schema
from tasks.database.urls import locate


@dataclass(frozen=True)
class Database:
    """One database, read once."""

    id: str  # the benchmark's name of it
    location: Location  # its engine, and where it is
    schema: Schema  # tables, columns, keys, sample rows
    # what identified its content when it was opened: sha256 of a file, or of a server's schema and row counts; ""
    # when it is absent and only the schema is known
    digest: str
    state: tuple[Any, ...] = field(default=(), repr=False)  # of its files when it was opened (`Engine.state`)

    @property
    def content(self) -> Content:
        """Its content when it was opened."""
        return Content(self.digest, self.state)

    @property
    def executable(self) -> bool:
        """Whether SQL can be executed on it; otherwise only the schema is known."""
        return bool(self.digest)

    @property
    def dialect(self) -> str:
        """Name of its SQL dialect, as sqlglot spells it."""
        return self.schema.dialect

    @property
    def path(self) -> Path:
        """Its file or folder; only for a database that is one."""
        return self.location.path


def open_database(
    where: Location | Path,
    database_id: str,
    *,
    sample_rows: int = 3,
    descriptions: Descriptions | None = None,
    foreign_keys: Iterable[ForeignKey] = (),
) -> Database:
    """Read a database's schema and digest, without changing or creating anything.

    Args:
        where: its location, or the path of its file.
        database_id: the benchmark's name of it.
        sample_rows: rows of each table to keep as samples.
        descriptions: of columns; they take precedence over the database's own comments.
        foreign_keys: further keys than those it declares; names are compared without case, and a key with a
            name that the database does not have is dropped.

    Raises:
        DataError: there is none, it cannot be read, its role may write, or it has no tables.
        ConfigurationError: its engine is unknown, or the engine's driver is not installed.
    """
    location = locate(str(where)) if isinstance(where, Path) else where
    engine = engine_of(location)
    engine.require(location, database_id)
    state = engine.state(location)
    found = engine.read(location, database_id, sample_rows)
    read = [table for table in found.tables if table.name != LOAD_MARK]
    if not read:
        raise DataError(
            f'Database "{database_id}": {location} has no tables. It may have been created by a program that '
            "opened a wrong path; fetch the file again, or check the benchmark's `databases` folder."
            if not engine.server
            else f'Database "{database_id}": {location} has no tables that its role may read. Check the name of the '
            "database, and what the role was granted; tables of another schema need ?schema=NAME at the end."
        )
    keys = united(read, found.foreign_keys, foreign_keys)
    schema = Schema(database_id, tuple(read), keys, dialect=engine.dialect).described(descriptions or {})
    return Database(database_id, location, schema, engine.digest(location), state)


def require_content(location: Location, content: Content) -> None:
    """Make sure that a database can be read, and holds what it held when it was opened.

    Raises:
        DatabaseUnavailableError: it cannot, or does not.
    """
    engine = engine_of(location)
    if not content.state or engine.state(location) == content.state:
        return
    try:
        engine.require(location, location.path.stem)
        same = engine.digest(location) == content.digest
    except (OSError, CrosscheckError) as error:
        raise unreadable(location, error) from error
    if not same:
        raise DatabaseUnavailableError(
            f"{location} has changed since this command read it. Run the same command again: it reads the new content."
        )


def digests_of(databases: Mapping[str, Database]) -> dict[str, str]:
    """Return what identifies the content of each database, by its name; absent ones are left out."""
    return {name: database.digest for name, database in sorted(databases.items()) if database.digest}


def changed_on_servers(databases: Iterable[Database]) -> tuple[str, ...]:
    """Return the ids of databases on servers whose schema or row counts have changed since they were opened.

    Files are checked before each query. A database that cannot be read now is left out.
    """
    changed = []
    for database in databases:
        engine = engine_of(database.location)
        if database.digest and engine.server:
            with suppress(CrosscheckError):
                if engine.current_digest(database.location) != database.digest:
                    changed.append(database.id)
    return tuple(changed)


def product_of(databases: Mapping[str, Database]) -> str:
    """Return name and version of what executes SQL on the databases of a benchmark; "" without any."""
    first = next(iter(databases.values()), None)
    return engine_of(first.location).product(first.location) if first else ""

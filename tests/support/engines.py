"""A small database on any engine: a file, or a database of a real server for a role that only reads it."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb

from tasks.core.files import remembered_digest
from tasks.database.database import Database
from tasks.database.engine import engine_of
from tests.support import mariadb, postgres

SERVERS = {"postgresql": postgres.new_reader, "mysql": mariadb.new_database}
"""What makes a database on a server from statements, and yields its URL."""


@contextmanager
def database_on(engine: str, folder: Path, *statements: str) -> Iterator[str]:
    """Yield the path or the URL of a database in which the statements have been executed."""
    path = folder / f"shop.{engine}"
    if engine == "sqlite":
        with closing(sqlite3.connect(path)) as connection, connection:
            for statement in statements:
                connection.execute(statement)
        yield str(path)
    elif engine == "duckdb":
        with duckdb.connect(str(path)) as connection_:
            for statement in statements:
                connection_.execute(statement)
        yield str(path)
    else:
        with SERVERS[engine](*statements) as url:
            yield url


def verify_unchanged(databases: Iterable[Database]) -> tuple[str, ...]:
    """Return the ids of databases whose content, read anew, has changed since it was opened, or that are missing."""
    remembered_digest.cache_clear()

    def digest(database: Database) -> str:
        engine, location = engine_of(database.location), database.location
        return engine.current_digest(location) if engine.exists(location) else ""

    return tuple(each.id for each in databases if digest(each) != each.digest)


def owned(url: str) -> str:
    """Return the URL of a server's database for the role that may do everything."""
    scheme, _, rest = url.partition("//")
    _, _, place = rest.partition("@")
    return f"{scheme}//{'postgres' if scheme == 'postgresql:' else 'root'}@{place}"


def reader_of(url: str) -> str:
    """Return the role of a URL."""
    return url.partition("//")[2].partition("@")[0]

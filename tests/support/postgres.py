"""Databases of a real PostgreSQL server, each made for one test and dropped after it."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

SERVER = "postgresql://postgres@127.0.0.1:5432"


@contextmanager
def new_database() -> Iterator[str]:
    """Yield the address of an empty database; connections that are still open at the end are closed.

    Skips where no server answers. CROSSCHECK_REQUIRE_POSTGRES=1 makes that a failure, for machines that are meant to
    have one.
    """
    name = f"crosscheck_test_{uuid.uuid4().hex}"
    try:
        execute(f"{SERVER}/postgres", f"CREATE DATABASE {name}")
    except psycopg.OperationalError as error:
        reason = f"no PostgreSQL answers at {SERVER}: {error}"
        if os.environ.get("CROSSCHECK_REQUIRE_POSTGRES") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    try:
        yield f"{SERVER}/{name}"
    finally:
        execute(f"{SERVER}/postgres", f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def new_reader(*statements: str) -> Iterator[str]:
    """Yield the URL of a database, as a role that only reads it; both are dropped at the end.

    Args:
        statements: executed in the new database, as its owner.
    """
    with new_database() as url:
        reader = f"crosscheck_reader_{uuid.uuid4().hex[:16]}"
        try:
            for statement in (
                "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
                f"CREATE ROLE {reader} LOGIN",
                *statements,
                f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {reader}",
            ):
                execute(url, statement)
            yield url.replace("postgres@", f"{reader}@")
        finally:
            execute(url, f"DROP OWNED BY {reader}")
            execute(url, f"DROP ROLE {reader}")


def execute(url: str, sql: str) -> list[tuple[object, ...]]:
    """Execute one statement in a connection of its own; return its rows."""
    with psycopg.connect(url, autocommit=True, connect_timeout=60) as connection:
        cursor = connection.execute(sql)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


def disconnect_everybody(url: str) -> None:
    """End every other connection to a database, as a restarted server would."""
    execute(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


@pytest.fixture
def postgres_database() -> Iterator[str]:
    """The address of an empty database."""
    with new_database() as url:
        yield url

"""Databases of a real MariaDB or MySQL server, each made for one test and dropped after it."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest

HOST = "127.0.0.1"


@contextmanager
def new_database(*statements: str) -> Iterator[str]:
    """Yield the URL of a database, as a role that only reads it; both are dropped at the end.

    Skips where no server answers. CROSSCHECK_REQUIRE_MARIADB=1 makes that a failure, for machines that are meant to
    have one.

    Args:
        statements: executed in the new database, as root.
    """
    name = f"crosscheck_test_{uuid.uuid4().hex[:16]}"
    try:
        execute(f"CREATE DATABASE {name}")
    except pymysql.err.OperationalError as error:
        reason = f"no MariaDB or MySQL answers at {HOST} as root: {error}"
        if os.environ.get("CROSSCHECK_REQUIRE_MARIADB") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    reader = name[-20:]
    roles = [f"{reader}@'%'", f"{reader}@localhost"]
    try:
        for role in roles:
            execute(f"CREATE USER {role}", f"GRANT SELECT, SHOW VIEW ON {name}.* TO {role}")
        execute(*statements, database=name)
        yield f"mysql://{reader}@{HOST}/{name}"
    finally:
        execute(f"DROP DATABASE {name}", *(f"DROP USER IF EXISTS {role}" for role in roles))


def execute(*statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
    """Execute statements as root; return the rows of the last."""
    rows: list[tuple[Any, ...]] = []
    connection = pymysql.connect(
        host=HOST, user="root", database=database, autocommit=True, connect_timeout=60
    )
    with connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
            rows = list(cursor.fetchall())
    return rows

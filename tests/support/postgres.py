"""Databases on the PostgreSQL server of this machine, made for tests and dropped after them."""

import os
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

SERVER = "postgresql://postgres@127.0.0.1:5432"

NewDatabase = Callable[[], str]
"""Makes an empty database and returns its URL."""


@pytest.fixture(scope="session")
def postgres_database() -> Iterator[NewDatabase]:
    """Makes databases of the test's own; skips where no server answers.

    CROSSCHECK_REQUIRE_POSTGRES=1 makes its absence a failure, for machines that are meant to have it.
    """
    import psycopg

    try:
        connection = psycopg.connect(f"{SERVER}/postgres", autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        reason = f"no PostgreSQL at {SERVER} without a password: {error}"
        if os.environ.get("CROSSCHECK_REQUIRE_POSTGRES") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    made: list[str] = []

    def new() -> str:
        made.append(f"crosscheck_test_{uuid4().hex}")
        connection.execute(f"CREATE DATABASE {made[-1]}")
        return f"{SERVER}/{made[-1]}"

    yield new
    for name in made:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    connection.close()

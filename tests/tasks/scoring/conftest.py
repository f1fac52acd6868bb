"""A small real database and the pool that executes on it."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from tasks.database.database import Database, open_database
from tasks.database.limits import Limits
from tasks.database.sandbox.workers import SqlWorkers


@pytest.fixture
def make_database(tmp_path: Path) -> Callable[..., Database]:
    """Make a SQLite database from a script and open it."""

    def make(script: str, name: str = "shop") -> Database:
        path = tmp_path / name / f"{name}.sqlite"
        path.parent.mkdir()
        connection = sqlite3.connect(path)
        connection.executescript(script)
        connection.close()
        return open_database(path, name)

    return make


@pytest.fixture
def shop(make_database: Callable[..., Database]) -> Database:
    return make_database(
        """
        CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, price REAL, kind TEXT);
        INSERT INTO item
        VALUES (1, 'cup', 2.0, 'a'), (2, 'pot', 9.5, 'a'), (3, 'cup', 2.0, 'b'), (4, 'jar', 5, NULL);
        CREATE TABLE sale (item_id INTEGER REFERENCES item(id), amount INTEGER);
        INSERT INTO sale VALUES (1, 3), (1, 1), (2, 2);
        """
    )


@pytest_asyncio.fixture
async def workers() -> AsyncIterator[SqlWorkers]:
    """A pool whose processes may take little, so that a killer query is killed soon."""
    async with SqlWorkers(1, limits=Limits(timeout_s=5, grace_s=0.5, memory_mb=512)) as pool:
        yield pool

"""A database to attack, and workers to attack it through."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from tasks.database.database import Database, open_database
from tasks.database.limits import Limits
from tasks.database.sandbox.workers import SqlWorkers

CONTENT = """
CREATE TABLE singer (id INTEGER PRIMARY KEY, name TEXT, born INTEGER);
INSERT INTO singer VALUES (1, 'Ann', 1970), (2, 'Bob', NULL), (3, 'Cyd', 1990);
CREATE TABLE latin1 (word TEXT);
INSERT INTO latin1 VALUES ('plain'), (CAST(x'636166e9' AS TEXT)), (CAST(x'636166e8' AS TEXT));
CREATE VIRTUAL TABLE notes USING fts5 (body);
INSERT INTO notes VALUES ('hello world'), ('goodbye');
CREATE VIRTUAL TABLE old_notes USING fts4 (body);
INSERT INTO old_notes VALUES ('hello world'), ('goodbye');
CREATE VIEW elders AS SELECT name FROM singer WHERE born < 1980;
"""
LIMITS = Limits(timeout_s=5.0, grace_s=1.0, memory_mb=512)


Build = Callable[[Path, str], Database]


@pytest.fixture(scope="session")
def build_database() -> Build:
    """Build a database from SQL, and open it."""

    def built(path: Path, sql: str) -> Database:
        connection = sqlite3.connect(path)
        connection.executescript(sql)
        connection.close()
        return open_database(path, path.stem)

    return built


@pytest.fixture(scope="module")
def concert(build_database: Build, tmp_path_factory: pytest.TempPathFactory) -> Database:
    return build_database(tmp_path_factory.mktemp("concert") / "what's a #1 50%?.sqlite", CONTENT)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def workers() -> AsyncIterator[SqlWorkers]:
    async with SqlWorkers(1, limits=LIMITS) as pool:
        yield pool

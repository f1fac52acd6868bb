"""What the sandbox adds to a query: `python tests/benchmarks/cost_of_queries.py URL... [--queries 1000]`.

For each database (a path or a URL, as a role that only reads), the same query many times: in a worker of the sandbox,
and by the bare driver in this process. Prints milliseconds per query, and of SQLite how long after its deadline an
endless query returns.
"""

import argparse
import asyncio
import sqlite3
import time
from collections.abc import Callable
from typing import Any

from tasks.database.database import Database, locate, open_database
from tasks.database.dialects import quoted
from tasks.database.engine import engine_of
from tasks.database.engines import mysql as mysql_opening
from tasks.database.engines import postgresql as postgresql_opening
from tasks.database.sandbox.workers import SqlWorkers

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
DEADLINE_S = 0.5


def bare(database: Database) -> Callable[[str], Any]:
    """Return what executes a query by the driver alone."""
    location = database.location
    if location.engine == "sqlite":
        connection: Any = sqlite3.connect(location.path)
        return lambda sql: connection.execute(sql).fetchall()
    if location.engine == "duckdb":
        import duckdb

        file = duckdb.connect(str(location.path), read_only=True)
        return lambda sql: file.execute(sql).fetchall()
    if location.engine == "postgresql":
        server = postgresql_opening.open_connection(location, options="")
        return lambda sql: server.execute(sql).fetchall()
    cursor = mysql_opening.open_connection(location, mysql_opening.database_of(location)).cursor()
    return lambda sql: (cursor.execute(sql), cursor.fetchall())


async def measure(url: str, queries: int) -> None:
    """Print both times for one database."""
    database = open_database(locate(url), "d", sample_rows=0)
    table = quoted(database.schema.tables[0].name, database.dialect)
    sql = f"SELECT count(*) FROM {table}"
    async with SqlWorkers(1) as workers:
        await workers.execute(database, sql)
        started = time.perf_counter()
        for _ in range(queries):
            assert (await workers.execute(database, sql)).ok
        ours = (time.perf_counter() - started) / queries
        if database.location.engine == "sqlite":
            started = time.perf_counter()
            stopped = await workers.execute(database, ENDLESS, timeout_s=DEADLINE_S)
            late = time.perf_counter() - started - DEADLINE_S
            after = await workers.execute(database, sql)
            print(
                f"endless: {stopped.status} {late * 1000:.0f} ms after the deadline; the next one is {after.status}"
            )
    execute = bare(database)
    execute(sql)
    started = time.perf_counter()
    for _ in range(queries):
        execute(sql)
    driver = (time.perf_counter() - started) / queries
    name = engine_of(database.location).product(database.location)
    print(
        f"{name:20} ours {ours * 1000:6.2f} ms, bare driver {driver * 1000:6.2f} ms a query ({queries:,} queries)"
    )


def main() -> None:
    """Measure each database."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="+", metavar="URL")
    parser.add_argument("--queries", type=int, default=1000)
    given = parser.parse_args()
    for url in given.urls:
        asyncio.run(measure(url, given.queries))


if __name__ == "__main__":
    main()

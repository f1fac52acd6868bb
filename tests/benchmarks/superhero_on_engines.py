"""BIRD mini-dev's gold SQL on copies of superhero: `python tests/benchmarks/superhero_on_engines.py --help`.

Copies superhero with `crosscheck load`, runs mini-dev's gold SQL of each server's dialect there and SQLite's on DuckDB,
and compares their results, as sets of rows, with those of SQLite's gold on SQLite. Needs mini-dev's questions and BIRD
dev's superhero below CROSSCHECK_DATA. Takes half a minute; the copies stay.
"""

import argparse
import asyncio
import json
import math
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tasks.core.records import Execution
from tasks.database.database import Database, open_database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.urls import locate
from tasks.scoring.execution.cells import Row
from tasks.scoring.execution.rules import bird
from tasks.settings.home import find_data
from tasks.sql.transpiling import transpile

NAME = "superhero"
FILES = ("benchmark.databases=../bird/dev_databases", "benchmark.tables=../bird/dev_tables.json")
TOLERANCES = (1e-9, 1e-7)
"""Of a number itself. DuckDB's REAL has single precision, which SQLite's gold gets there unless it is translated."""


def main() -> None:
    """Copy, run, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", default="postgres@127.0.0.1:5432", help="its owner and address")
    parser.add_argument("--mysql", default="root@127.0.0.1:3306", help="its owner and address")
    parser.add_argument("--prefix", default="demo_", help="beginning of the copies' names")
    parser.add_argument("--home", type=Path, default=Path(".crosscheck"), help="working folder")
    given = parser.parse_args()
    home = given.home.resolve()
    os.environ["CROSSCHECK_HOME"] = str(home)
    targets = {
        ("PostgreSQL", "postgresql"): f"postgresql://{given.postgresql}/{given.prefix}{NAME}",
        ("MariaDB", "mysql"): f"mysql://{given.mysql}/{given.prefix}{NAME}",
        ("DuckDB", "sqlite"): f"duckdb:///{home}/duck/{NAME}.duckdb",
    }
    source = find_data(None) / "bird" / "dev_databases" / NAME / f"{NAME}.sqlite"
    base = asyncio.run(results(open_database(source, NAME), golds("sqlite")))
    for (engine, dialect), url in targets.items():
        copy(url)
        database, sqls = open_database(locate(url, writable=True), NAME), golds(dialect)
        show(f"{engine}, gold of mini_dev_{dialect}.json", base, asyncio.run(results(database, sqls)))
        if dialect == "sqlite":
            sqls = {id: transpile(sql, dialect, database.dialect).sql for id, sql in sqls.items()}
            show(f"{engine}, the same translated by sqlglot", base, asyncio.run(results(database, sqls)))


def show(title: str, base: Mapping[str, Execution], found: Mapping[str, Execution]) -> None:
    """Print how many results are equal, and the questions of those that are not."""
    groups = defaultdict(list)
    for question, execution in found.items():
        groups[difference(base[question], execution)].append(question)
    print(f"{title}: {len(groups.pop('equal', []))} of {len(found)} results equal SQLite's")
    for kind, questions in sorted(groups.items()):
        print(f"  {kind}: {len(questions)} ({', '.join(questions)})")


def golds(dialect: str) -> dict[str, str]:
    """Return the gold SQL of superhero's questions in one dialect, by question."""
    file = find_data(None) / "bird-mini-dev" / f"mini_dev_{dialect}.json"
    questions = json.loads(file.read_text(encoding="utf-8"))
    return {str(each["question_id"]): each["SQL"] for each in questions if each["db_id"] == NAME}


def copy(url: str) -> None:
    """Copy superhero with `crosscheck load`."""
    files = [part for setting in FILES for part in ("--set", setting)]
    command = ("load", "--benchmark", "bird-mini-dev", "--databases", NAME, "--to", url, *files)
    subprocess.run(
        [Path(sys.executable).parent / "crosscheck", *command], check=True, stdout=subprocess.DEVNULL
    )


async def results(database: Database, sqls: Mapping[str, str]) -> dict[str, Execution]:
    """Execute one query per question in the sandbox."""
    async with SqlWorkers(2) as workers:
        done = [workers.execute(database, sql, rows=1_000_000, timeout_s=30) for sql in sqls.values()]
        return dict(zip(sqls, await asyncio.gather(*done), strict=True))


def difference(base: Execution, other: Execution) -> str:
    """Return how much two results differ, in words."""
    if not (base.ok and other.ok):
        return f"fails ({base.error or other.error})"
    if bird(base.rows, other.rows):
        return "equal"
    return next(
        (f"within {each:g}" for each in TOLERANCES if close(base.rows, other.rows, each)), "other result"
    )


def close(one: tuple[Row, ...], other: tuple[Row, ...], tolerance: float) -> bool:
    """Whether the same rows come out, with numbers that differ by a part of themselves at most."""
    rows, others = (sorted(set(each), key=_rounded) for each in (one, other))
    return len(rows) == len(others) and all(
        len(row) == len(found)
        and all(
            math.isclose(a, b, rel_tol=tolerance) if _number(a) and _number(b) else a == b
            for a, b in zip(row, found, strict=True)
        )
        for row, found in zip(rows, others, strict=True)
    )


def _number(value: object) -> bool:
    return isinstance(value, int | float)


def _rounded(row: Row) -> list[str]:
    return [f"{value:.5g}" if _number(value) else str(value) for value in row]


if __name__ == "__main__":
    main()

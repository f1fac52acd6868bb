r"""How fast SQL is executed and scored beside the plain way. A script, not a test:

    python tests/benchmarks/speed_of_scoring.py [--benchmark demo] [--limit 129] [--data FOLDER]

- executor: a query through the sandbox's worker beside the same query with sqlite3 on one connection; how long after
  its deadline an endless query returns, and that the next one runs;
- score: the command on a fresh working folder and once more, the gold SQL being the predictions, beside an evaluator
  in one process as BIRD's official one works (for each pair a thread with a time limit, a new connection, both
  queries, and a comparison of the sets of rows).

Seconds depend on what else the machine does; compare the ratios.
"""

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tasks.benchmarks.benchmark import load_benchmark
from tasks.database.database import Database, open_database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.settings.home import find_conf
from tasks.settings.load import load_benchmark_settings
from tests.benchmarks.speed_of_an_evaluation import measure
from tests.support.command_line import CommandLine

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
QUERIES = 2_000
DEADLINE_S = 0.5


async def executor(database: Database, path: Path) -> None:
    """Print what the worker adds to a query, and to a deadline."""
    async with SqlWorkers(1) as workers:
        await workers.execute(database, "SELECT 1")
        started, cpu = time.perf_counter(), time.process_time()
        for _ in range(QUERIES):
            await workers.execute(database, "SELECT 1")
        sandboxed, here = time.perf_counter() - started, time.process_time() - cpu
        started = time.perf_counter()
        stopped = await workers.execute(database, ENDLESS, timeout_s=DEADLINE_S)
        late = time.perf_counter() - started - DEADLINE_S
        after = await workers.execute(database, "SELECT 1")
    with sqlite3.connect(path) as connection:
        started = time.perf_counter()
        for _ in range(QUERIES):
            connection.execute("SELECT 1").fetchall()
        plain = time.perf_counter() - started
    added = (sandboxed - plain) * 1000 / QUERIES
    print(f"executor: {added:.3f} ms over sqlite3 for a query ({here * 1000 / QUERIES:.3f} ms of CPU here)")
    print(
        f"executor: {stopped.status} {late * 1000:.0f} ms after the deadline; the next query is {after.status}"
    )


def naive(pairs: list[tuple[Path, str]]) -> float:
    """Judge pairs of equal SQL, one after the other; return the seconds."""

    def judge(path: Path, sql: str) -> None:
        connection = sqlite3.connect(path)
        predicted = connection.execute(sql).fetchall()
        right.append(set(predicted) == set(connection.execute(sql).fetchall()))
        connection.close()

    right: list[bool] = []
    started = time.perf_counter()
    for pair in pairs:
        thread = threading.Thread(target=judge, args=pair, daemon=True)
        thread.start()
        thread.join(30)
    return time.perf_counter() - started


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--benchmark", default="demo")
    options.add_argument("--limit", type=int, default=129)
    options.add_argument("--data", default="data", help="folder of the benchmark's files")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        settings = load_benchmark_settings(find_conf(), given.benchmark, ())
        benchmark = load_benchmark(settings, data=Path(given.data), home=home, conf=find_conf())
        first = benchmark.questions[: given.limit]
        questions = [one for one in first if benchmark.exists(one.database_id)]
        pairs = [
            (Path(str(benchmark.location(one.database_id))), benchmark.gold[one.id]) for one in questions
        ]
        database = open_database(benchmark.location(questions[0].database_id), questions[0].database_id)
        asyncio.run(executor(database, pairs[0][0]))
        file = Path(folder) / "gold.json"
        file.write_text(
            json.dumps(
                {
                    one.id: f"{sql}\t----- bird -----\t{one.database_id}"
                    for one, (_, sql) in zip(questions, pairs, strict=True)
                }
            ),
            encoding="utf-8",
        )
        score = [
            "score",
            "--benchmark",
            given.benchmark,
            "--data",
            given.data,
            "--limit",
            str(given.limit),
            "--json",
        ]
        plain = naive(pairs)
        command = CommandLine(home)
        for what in ("cold", "again"):
            ran = measure(command, *score, "--predictions", str(file))
            print(
                f"score, {what}: {len(pairs)} pairs in {ran.seconds:.1f} s (CPU {ran.cpu_s:.1f} s); evaluator in one "
                f"process {plain:.1f} s, beyond it {ran.seconds - plain:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()

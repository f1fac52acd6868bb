"""Measures the value index on made-up data: time and memory to build it, and time to answer a question.

    python -m tests.benchmarks.measure_values --columns 100 --values 10000

Targets on two cores: a million values in 10 s and 200 MB; a question over 100 columns in 100 ms.
"""

import argparse
import random
import resource
import sqlite3
import statistics
import sys
import tempfile
import time
from contextlib import closing
from itertools import accumulate
from pathlib import Path

from tasks.database.database import open_database
from tasks.retrieval.values.index import ValueIndex

COMMON = [
    "the",
    "of",
    "and",
    "in",
    "for",
    "to",
    "school",
    "county",
    "north",
    "south",
    "high",
    "new",
    "saint",
    "city",
]


def make(path: Path, columns: int, distinct: int, seed: int = 0) -> None:
    """Write tables of ten text columns; words follow Zipf's law, two values in five hold a very common one."""
    rng = random.Random(seed)
    syllables = [a + b + c for a in "bcdfglmnprst" for b in "aeiou" for c in ("", "n", "r", "s", "l")]
    vocabulary = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(60_000)]
    weights = list(accumulate(1 / (rank + 1) ** 0.8 for rank in range(len(vocabulary))))

    def value() -> str:
        words = rng.choices(vocabulary, cum_weights=weights, k=rng.choice((1, 1, 2, 2, 3, 4, 5)))
        if rng.random() < 0.4:
            words[rng.randrange(len(words))] = rng.choice(COMMON)
        number = f" {rng.randint(1, 9999)}" if rng.random() < 0.3 else ""
        return " ".join(word.capitalize() for word in words) + number

    with closing(sqlite3.connect(path)) as connection:
        for first in range(0, columns, 10):
            names = [f"c{number}" for number in range(first, min(first + 10, columns))]
            contents = []
            for _ in names:
                values: dict[str, None] = {}
                while len(values) < distinct:
                    values[value()] = None
                contents.append(list(values))
            connection.execute(f"CREATE TABLE t{first} (id INTEGER PRIMARY KEY, {', '.join(names)})")
            marks = ", ".join("?" * len(names))
            rows = ((number, *row) for number, row in enumerate(zip(*contents, strict=True)))
            connection.executemany(f"INSERT INTO t{first} VALUES (?, {marks})", rows)
        connection.commit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--values", type=int, default=10_000, help="distinct values per column")
    parser.add_argument("--questions", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.sqlite"
        make(path, options.columns, options.values)
        database = open_database(path, "made")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wall, cpu = time.perf_counter(), time.process_time()
        index = ValueIndex.open(database, Path(folder) / "values")
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        size = next((Path(folder) / "values").iterdir()).stat().st_size
        sys.stdout.write(
            f"{options.columns * options.values:,} values: built in {wall:.1f} s ({cpu:.1f} s of CPU), "
            f"{after / 1024:.0f} MiB at most, {(after - before) / 1024:.0f} of them new, "
            f"{size / 2**20:.0f} MiB on disk\n"
        )
        rng = random.Random(1)
        with closing(sqlite3.connect(path)) as connection:
            times = []
            for _ in range(options.questions):
                said = [
                    connection.execute(
                        f"SELECT c{c} FROM t{c // 10 * 10} WHERE id = ?", (rng.randrange(options.values),)
                    )
                    for c in rng.choices(range(options.columns), k=2)
                ]
                first, second = (rows.fetchone()[0] for rows in said)
                question = (
                    f"How many schools in the county of {first} have the highest number of students "
                    f"and are north of {second} in the city since 1990?"
                )
                started = time.perf_counter()
                found = index.retrieve(question)
                times.append(time.perf_counter() - started)
                shown = {value for values in found.values() for value in values}
                assert {text for text in (first, second) if len(text) > 8} <= shown, (first, second)
        sys.stdout.write(
            f"a question: {1000 * statistics.median(times[1:]):.0f} ms (median), "
            f"{1000 * max(times[1:]):.0f} ms (worst), {1000 * times[0]:.0f} ms the first\n"
        )


if __name__ == "__main__":
    main()

"""Measures the value index: time, memory and disk to build it, time to answer a question, and recall of gold values.

    python -m tests.benchmarks.measure_values --columns 100 --values 10000 --data DATA

Targets on two idle cores: a million values in 4 s and 100 MB; a question over 100 columns in 20 ms; recall as before.
"""

import argparse
import json
import random
import re
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
from tasks.retrieval.value_index import ValueIndex

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


RECORDED = {
    "speed": "a million values in 9.5 s, a question 81 ms",
    "superhero": "119 of 127",
    "spider train": "2568 of 2985",
    "spider dev": "350 of 411",
}
"""What the index at 39ba542, before it was built on FTS5 alone, gave with the same data."""


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


def plain_insert(path: Path, columns: int) -> float:
    """Return the seconds of CPU that FTS5 takes to index the values of `make`, with its default settings."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(sqlite3.connect(Path(folder) / "plain")) as connection,
    ):
        connection.executescript(
            f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; ATTACH '{path}' AS source;"
            "CREATE VIRTUAL TABLE word USING fts5 (value)"
        )
        started = time.process_time()
        for c in range(columns):
            connection.execute(f"INSERT INTO word SELECT c{c} FROM source.t{c // 10 * 10}")
        connection.commit()
        return time.process_time() - started


def measure_speed(columns: int, values: int, questions: int) -> None:
    """Print what building an index of made-up values costs, and a question about them."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.sqlite"
        make(path, columns, values)
        database = open_database(path, "made")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wall, cpu = time.perf_counter(), time.process_time()
        index = ValueIndex.open(database, Path(folder) / "values")
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        size = next((Path(folder) / "values").iterdir()).stat().st_size
        sys.stdout.write(
            f"{columns * values:,} values: built in {wall:.1f} s ({cpu:.1f} s of CPU), "
            f"{(after - before) / 1024:.0f} MiB of memory, {size / 1e6:.0f} MB on disk; "
            f"{cpu / plain_insert(path, columns):.2f} times the CPU of FTS5's own index of the same values\n"
        )
        rng = random.Random(1)
        with closing(sqlite3.connect(path)) as connection:
            times, used = [], []
            for _ in range(questions):
                said = [
                    connection.execute(
                        f"SELECT c{c} FROM t{c // 10 * 10} WHERE id = ?", (rng.randrange(values),)
                    )
                    for c in rng.choices(range(columns), k=2)
                ]
                first, second = (rows.fetchone()[0] for rows in said)
                question = (
                    f"How many schools in the county of {first} have the highest number of students "
                    f"and are north of {second} in the city since 1990?"
                )
                started, cpu = time.perf_counter(), time.process_time()
                found = index.retrieve(question)
                times.append(time.perf_counter() - started)
                used.append(time.process_time() - cpu)
                shown = {value for values_of_column in found.values() for value in values_of_column}
                assert {text for text in (first, second) if len(text) > 8} <= shown, (first, second)
        sys.stdout.write(
            f"a question: {1000 * statistics.median(times[1:]):.0f} ms (median; "
            f"{1000 * statistics.median(used[1:]):.0f} ms of CPU), "
            f"{1000 * max(times[1:]):.0f} ms (worst), {1000 * times[0]:.0f} ms the first\n"
        )


def measure_recall(data: Path) -> None:
    """Print how many of the texts in gold SQL are among two values per column, for the databases that exist."""
    superhero = [
        (data / "bird" / "dev_databases" / one["db_id"], one["question"], one["SQL"])
        for one in json.loads((data / "bird" / "dev.json").read_text(encoding="utf-8"))
        if one["db_id"] == "superhero"
    ]
    spider = {
        split: [
            (data / "spider" / "database" / one["db_id"], one["question"], one["query"])
            for one in json.loads((data / "spider" / f"{split}.json").read_text(encoding="utf-8"))
        ]
        for split in ("train", "dev")
    }
    sets = {"superhero": superhero, "spider train": spider["train"], "spider dev": spider["dev"]}
    for name, questions in sets.items():
        with tempfile.TemporaryDirectory() as folder:
            indexes: dict[Path, ValueIndex] = {}
            wanted = found = asked = 0
            for database, question, sql in questions:
                path = database / f"{database.name}.sqlite"
                if not path.is_file():
                    continue
                if path not in indexes:
                    indexes[path] = ValueIndex.open(open_database(path, database.name), Path(folder))
                shown = {
                    str(value) for values in indexes[path].retrieve(question).values() for value in values
                }
                texts = {one or other for one, other in re.findall(r"'([^']+)'|\"([^\"]+)\"", sql)}
                wanted, found, asked = wanted + len(texts), found + len(texts & shown), asked + 1
        sys.stdout.write(
            f"{name}, {asked} questions: {found} of {wanted} texts of gold SQL shown; {RECORDED[name]} before\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--columns", type=int, default=100)
    parser.add_argument("--values", type=int, default=10_000, help="distinct values per column")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--data", type=Path, help="measure recall as well, on the benchmarks in this folder")
    options = parser.parse_args()
    sys.stdout.write(f"before, on two idle cores: {RECORDED['speed']}\n")
    measure_speed(options.columns, options.values, options.questions)
    if options.data:
        measure_recall(options.data)


if __name__ == "__main__":
    main()

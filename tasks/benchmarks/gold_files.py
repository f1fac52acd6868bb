"""All gold SQL of a split, with or without questions: what `crosscheck benchmarks verify` runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.rows import read_text
from tasks.core.errors import DataError

SplitName = Literal["dev", "train"]


@dataclass(frozen=True, slots=True)
class Gold:
    """One gold SQL."""

    id: str  # the question's id; its position, from 0, where the source has only positions
    database_id: str  # the database it is meant for
    sql: str  # the SQL


@dataclass(frozen=True, slots=True)
class Golds:
    """The gold SQL of a split."""

    source: str  # the file it was read from, or the files
    golds: tuple[Gold, ...]  # in file order
    # whether the ids are the ids of the evaluated questions, so that they can be quarantined
    by_question: bool


def read_golds(benchmark: Benchmark, split: SplitName = "dev", file: Path | None = None) -> Golds:
    """Read the gold of a split, or of a file in Spider's form, one `SQL<tab>database` per line.

    A file that holds the gold of the evaluated questions, in their order, gets their ids.

    "dev" are the evaluated questions, "train" the training questions: from the benchmark's `train_gold` file if it has
    one, else from `train`.
    """
    settings = benchmark.settings
    if file is not None:
        golds, evaluated = read_gold_file(file), _evaluated(benchmark)
        same = [(g.database_id, g.sql) for g in golds] == [(g.database_id, g.sql.strip()) for g in evaluated]
        return Golds(str(file), evaluated if same else golds, same)
    if split == "dev":
        if not benchmark.gold:
            raise DataError(f"{settings.name} has no gold SQL, so there is none to run.")
        return Golds(", ".join(map(str, benchmark.question_files)), _evaluated(benchmark), True)
    if settings.train_gold:
        path = benchmark.folder / settings.train_gold
        return Golds(str(path), read_gold_file(path), False)
    if not benchmark.train_files:
        raise DataError(
            f'{settings.name} has no training questions. Name their file ("--set benchmark.train=FILE"), or a file '
            "of gold SQL with --gold FILE."
        )
    numbered = enumerate(benchmark.demonstrations)
    return Golds(
        ", ".join(map(str, benchmark.train_files)),
        tuple(Gold(str(number), d.database_id, d.sql) for number, d in numbered),
        False,
    )


def _evaluated(benchmark: Benchmark) -> tuple[Gold, ...]:
    return tuple(
        Gold(q.id, q.database_id, benchmark.gold[q.id]) for q in benchmark.questions if q.id in benchmark.gold
    )


def read_gold_file(path: Path) -> tuple[Gold, ...]:
    """Read gold SQL in Spider's form: one per line, a tab, and its database. Blank lines count as positions only."""
    golds = []
    for number, line in enumerate(read_text(path).split("\n")):
        if not line.strip():
            continue
        sql, tab, database = line.rpartition("\t")
        name = database.strip()
        if not tab or not sql.strip() or not name or any(sign in name for sign in "/\\\0 "):
            raise DataError(
                f"{path}, line {number + 1}: must be a SQL, a tab and the name of its database, as in Spider's "
                "gold files."
            )
        golds.append(Gold(str(number), name, sql.strip()))
    if not golds:
        raise DataError(f"{path} holds no gold SQL.")
    return tuple(golds)

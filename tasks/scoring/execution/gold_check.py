"""All gold SQL of a split, with or without questions, executed and classified: finds gold that fails or is slow."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field

from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.rows import read_text
from tasks.core.errors import DatabaseUnavailableError, DataError
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.cost import percentile

GoldClass = Literal[
    "rows", "empty", "error", "timeout", "too_large", "missing_database", "unreadable_database"
]
GOLD_CLASSES: tuple[GoldClass, ...] = get_args(GoldClass)
FINISHED: frozenset[GoldClass] = frozenset({"rows", "empty"})
FAULTS: frozenset[GoldClass] = frozenset({"error", "timeout", "too_large"})
"""Classes under which no prediction can be right."""


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


@dataclass(frozen=True, slots=True)
class GoldCheck(Gold):
    """Outcome of one gold SQL."""

    # "rows"; "empty" (ran, and returned no row: any other query without rows is right); "error"; "timeout";
    # "too_large"; "missing_database" (not run); "unreadable_database" (its file is damaged or gone, or its server
    # does not answer: whether the gold runs is not known)
    found: Annotated[GoldClass, Field(exclude=True)]
    error: str = ""  # the database's message, or why it cannot be read; "" where there is none
    row_count: int | None = None  # rows it returned; None where it did not finish
    seconds: float | None = None  # time it took; None where it was not run


@dataclass(frozen=True, slots=True)
class GoldReport:
    """Outcomes of the gold SQL of a split."""

    checks: tuple[GoldCheck, ...]  # one per gold, in file order
    slow_s: float  # seconds above which a gold that finished is called slow

    @property
    def by_class(self) -> Mapping[GoldClass, tuple[GoldCheck, ...]]:
        """The gold of each class."""
        return {name: tuple(check for check in self.checks if check.found == name) for name in GOLD_CLASSES}

    @property
    def counts(self) -> Mapping[str, int]:
        """How many there are of each class."""
        return {name: len(checks) for name, checks in self.by_class.items()}

    @property
    def finished(self) -> tuple[GoldCheck, ...]:
        """Gold that runs to its end."""
        return tuple(check for check in self.checks if check.found in FINISHED)

    @property
    def slow(self) -> tuple[GoldCheck, ...]:
        """Gold that finished and took longer than the threshold, slowest first."""
        slow = [check for check in self.finished if (check.seconds or 0.0) > self.slow_s]
        return tuple(sorted(slow, key=lambda check: -(check.seconds or 0.0)))

    @property
    def faults(self) -> tuple[GoldCheck, ...]:
        """Gold that does not run to its end."""
        return tuple(check for check in self.checks if check.found in FAULTS)

    @property
    def unreadable(self) -> tuple[GoldCheck, ...]:
        """Gold whose database cannot be read."""
        return tuple(check for check in self.checks if check.found == "unreadable_database")

    @property
    def p95_s(self) -> float | None:
        """95th percentile of the seconds of those that were run; None of none."""
        return percentile(sorted(c.seconds for c in self.checks if c.seconds is not None), 95)


async def check_golds(
    workers: SqlWorkers,
    suites: Mapping[str, Sequence[Database]],
    golds: Sequence[Gold],
    *,
    timeout_s: float,
    broken: Mapping[str, str],
    on_check: Callable[[GoldCheck], None],
) -> tuple[GoldCheck, ...]:
    """Run every gold once on each database of its suite and classify it, in file order.

    What is found is that of the first database, unless the gold does not run on another. `broken` are databases whose
    file is there but cannot be read, with the reason. `on_check` is called with each result.
    """
    checks: dict[int, GoldCheck] = {}
    queue = iter(sorted(enumerate(golds), key=lambda numbered: numbered[1].database_id))

    async def work() -> None:
        for number, gold in queue:
            check = GoldCheck(gold.id, gold.database_id, gold.sql, "missing_database")
            if gold.database_id in suites:
                check = await _run_on_all(workers, suites[gold.database_id], check, timeout_s)
            elif error := broken.get(gold.database_id):
                check = replace(check, found="unreadable_database", error=error)
            on_check(check)
            checks[number] = check

    await asyncio.gather(*(work() for _ in range(2 * workers.size)))
    return tuple(checks[number] for number in range(len(golds)))


async def _run_on_all(
    workers: SqlWorkers, suite: Sequence[Database], check: GoldCheck, timeout_s: float
) -> GoldCheck:
    first = await _run(workers, suite[0], check, timeout_s)
    if first.found not in FINISHED:
        return first
    for database in suite[1:]:
        further = await _run(workers, database, check, timeout_s)
        if further.found not in FINISHED:
            return replace(further, error=f"{database.path.name}: {further.error or further.found}")
    return first


async def _run(workers: SqlWorkers, database: Database, check: GoldCheck, timeout_s: float) -> GoldCheck:
    try:
        execution = await workers.execute(database, check.sql, rows=0, timeout_s=timeout_s)
    except DatabaseUnavailableError as error:
        return replace(check, found="unreadable_database", error=str(error))
    finished: GoldClass = "rows" if execution.row_count else "empty"
    return replace(
        check,
        found=finished if execution.status == "ok" else execution.status,
        error=execution.error,
        row_count=execution.row_count,
        seconds=execution.seconds,
    )


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

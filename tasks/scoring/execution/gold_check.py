"""All gold SQL of a split, with or without questions, executed and classified: finds gold that fails or is slow.

Golds whose result the data do not decide are found by executing alternatives of the gold. A prediction that reads the
question as the gold does can then have another result, and be judged wrong.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.rows import read_text
from tasks.core.errors import DatabaseUnavailableError, DataError
from tasks.core.records import Execution
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.cost import percentile
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.scores import is_right
from tasks.sql.alternatives import AlternativePair, Kind, find_alternatives

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

    id: str  # the question's id, shared by all of its golds; its position, from 0, where the source has only positions
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
    gold_class: Annotated[GoldClass, Field(exclude=True)]
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
        return {
            name: tuple(check for check in self.checks if check.gold_class == name) for name in GOLD_CLASSES
        }

    @property
    def counts(self) -> Mapping[str, int]:
        """How many there are of each class."""
        return {name: len(checks) for name, checks in self.by_class.items()}

    @property
    def finished(self) -> tuple[GoldCheck, ...]:
        """Gold that runs to its end."""
        return tuple(check for check in self.checks if check.gold_class in FINISHED)

    @property
    def first_finished(self) -> tuple[GoldCheck, ...]:
        """The first gold of each question, if it runs, for figures that need one SQL per question."""
        first = {check.id: check for check in reversed(self.checks)}
        return tuple(check for check in self.finished if first[check.id] is check)

    @property
    def slow(self) -> tuple[GoldCheck, ...]:
        """Gold that finished and took longer than the threshold, slowest first."""
        slow = [check for check in self.finished if (check.seconds or 0.0) > self.slow_s]
        return tuple(sorted(slow, key=lambda check: -(check.seconds or 0.0)))

    @property
    def faults(self) -> tuple[GoldCheck, ...]:
        """Gold that does not run to its end."""
        return tuple(check for check in self.checks if check.gold_class in FAULTS)

    @property
    def p95_s(self) -> float | None:
        """95th percentile of the seconds of those that were run; None of none."""
        return percentile(sorted(check.seconds for check in self.checks if check.seconds is not None), 95)


async def check_golds(
    workers: SqlWorkers,
    suites: Mapping[str, Sequence[Database]],
    golds: Sequence[Gold],
    *,
    timeout_s: float,
    broken: Mapping[str, str],
    on_check: Callable[[GoldCheck], None],
) -> tuple[GoldCheck, ...]:
    """Run every gold once on each database of its suite and classify it; return the results in file order.

    `suites` has the databases of each database id. The result is that of the first one, unless the gold does not run on
    another. `broken` has the databases that cannot be read, with the reason. `on_check` is called with each result.
    """
    checks: dict[int, GoldCheck] = {}
    by_database = iter(sorted(enumerate(golds), key=lambda numbered: numbered[1].database_id))

    async def work() -> None:
        # all of these coroutines take from one iterator: each gold is run once
        for number, gold in by_database:
            check = GoldCheck(gold.id, gold.database_id, gold.sql, gold_class="missing_database")
            if gold.database_id in suites:
                check = await _run_on_all(workers, suites[gold.database_id], check, timeout_s)
            elif error := broken.get(gold.database_id):
                check = replace(check, gold_class="unreadable_database", error=error)
            on_check(check)
            checks[number] = check

    # twice as many as workers, so that no worker waits for its next gold
    await asyncio.gather(*(work() for _ in range(2 * workers.size)))
    return tuple(checks[number] for number in range(len(golds)))


async def _run_on_all(
    workers: SqlWorkers, suite: Sequence[Database], check: GoldCheck, timeout_s: float
) -> GoldCheck:
    """Run a gold on every database of a suite: the first one that fails decides, else the first database counts."""
    first = await _run(workers, suite[0], check, timeout_s)
    if first.gold_class not in FINISHED:
        return first
    for database in suite[1:]:
        further = await _run(workers, database, check, timeout_s)
        if further.gold_class not in FINISHED:
            return replace(further, error=f"{database.path.name}: {further.error or further.gold_class}")
    return first


async def _run(workers: SqlWorkers, database: Database, check: GoldCheck, timeout_s: float) -> GoldCheck:
    try:
        execution = await workers.execute(database, check.sql, rows=0, timeout_s=timeout_s)
    except DatabaseUnavailableError as error:
        return replace(check, gold_class="unreadable_database", error=str(error))
    finished: GoldClass = "rows" if execution.row_count else "empty"
    return replace(
        check,
        gold_class=finished if execution.status == "ok" else execution.status,
        error=execution.error,
        row_count=execution.row_count,
        seconds=execution.seconds,
    )


def read_golds(benchmark: Benchmark, split: SplitName, file: Path | None) -> Golds:
    """Read the gold SQL of `file` (Spider's form, one `SQL<tab>database` per line) or, if it is None, of a split.

    Split "dev" is the evaluated questions, "train" the training questions: of the benchmark's `train_gold` file if it
    has one, else of its `train` files. If a file holds the gold of exactly the evaluated questions, in their order, its
    golds get the ids of these questions.
    """
    settings = benchmark.settings
    if file is not None:
        golds = read_gold_file(file)
        evaluated = _evaluated_golds(benchmark, {})
        expected = [(gold.database_id, gold.sql.strip()) for gold in evaluated]
        is_evaluated = [(gold.database_id, gold.sql) for gold in golds] == expected
        return Golds(str(file), evaluated if is_evaluated else golds, by_question=is_evaluated)
    if split == "dev":
        if not benchmark.gold:
            raise DataError(f"{settings.name} has no gold SQL, so there is none to run.")
        evaluated = _evaluated_golds(benchmark, benchmark.further_gold)
        return Golds(", ".join(map(str, benchmark.question_files)), evaluated, by_question=True)
    if settings.train_gold:
        path = benchmark.folder / settings.train_gold
        return Golds(str(path), read_gold_file(path), by_question=False)
    if not benchmark.train_files:
        raise DataError(
            f'{settings.name} has no training questions. Name their file ("--set benchmark.train=FILE"), or a file '
            "of gold SQL with --gold FILE."
        )
    numbered = enumerate(benchmark.demonstrations)
    golds = tuple(Gold(str(number), example.database_id, example.sql) for number, example in numbered)
    return Golds(", ".join(map(str, benchmark.train_files)), golds, by_question=False)


def _evaluated_golds(benchmark: Benchmark, further: Mapping[str, Sequence[str]]) -> tuple[Gold, ...]:
    golds: list[Gold] = []
    for question in benchmark.questions:
        if question.id in benchmark.gold:
            sqls = (benchmark.gold[question.id], *further.get(question.id, ()))
            golds += [Gold(question.id, question.database_id, sql) for sql in sqls]
    return tuple(golds)


def read_gold_file(path: Path) -> tuple[Gold, ...]:
    """Read gold SQL in Spider's form, `SQL<tab>database`; the id of a gold is the number of its line, from 0."""
    golds = []
    for number, line in enumerate(read_text(path).split("\n")):
        if not line.strip():
            continue
        sql, tab, database = line.rpartition("\t")
        name = database.strip()
        is_name = name and not any(sign in name for sign in "/\\\0 ")  # a folder is found by it
        if not tab or not sql.strip() or not is_name:
            raise DataError(
                f"{path}, line {number + 1}: must be a SQL, a tab and the name of its database, as in Spider's "
                "gold files."
            )
        golds.append(Gold(str(number), name, sql.strip()))
    if not golds:
        raise DataError(f"{path} holds no gold SQL.")
    return tuple(golds)


MAX_VALUES = 5_000
"""Values of a sort key that are looked at."""
MAX_ROWS = 2_000
"""Rows of two results that are compared for those that only one has."""
TIES = ("limit_tie", "limit_without_order", "order_tie")
KINDS_IN_WORDS: dict[Kind, str] = {
    "limit_tie": "rows that ORDER BY leaves equal, at the cut of a LIMIT",
    "limit_without_order": "a LIMIT without ORDER BY",
    "order_tie": "rows that ORDER BY leaves equal, in another order",
    "bare_column": "a column beside an aggregate that differs within the group",
    "extreme_row": "a column beside MIN or MAX, which only SQLite takes from that row",
    "text_number": "numbers that are sorted as texts",
    "null_order": "NULL before or after other values",
    "float_sum": "a sum of numbers in another order",
}
_NUMBER = re.compile(r"\s*[-+]?\d+(\.\d+)?\s*")


@dataclass(frozen=True, slots=True)
class Finding:
    """An alternative that has another result."""

    pair: AlternativePair
    columns: tuple[str, ...] = ()
    # rows that only one of the two results has, of each the first ones; where only the order differs, the first rows
    only_one: tuple[tuple[Any, ...], ...] = field(default=(), repr=False)
    only_other: tuple[tuple[Any, ...], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the data decide the result of a gold."""

    findings: tuple[Finding, ...] = ()  # () where they do, as far as it was checked
    unchecked: str = ""  # what could not be checked, and why, as a clause; "" where nothing

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the findings."""
        return tuple(finding.pair.kind for finding in self.findings)


async def decide(judge: Judge, database: Database, gold_sql: str, *, rows: int = 0) -> Decision:
    """Compare the results of a gold's alternatives, such as other orders of ties; a finding has at most `rows` rows."""
    alternatives = find_alternatives(gold_sql, database.dialect)
    if alternatives is None:
        return Decision(unchecked="it cannot be parsed")
    all_numbers = [True] * len(alternatives.probes)
    if not any(alternatives.pairs(width=1, text_numbers=all_numbers)):
        return Decision()  # no alternative, even if every probed sort key has numbers as texts
    gold = await judge.workers.execute(database, gold_sql, rows=0, timeout_s=judge.timeout_s)
    if not gold.ok:
        return Decision()  # that the gold fails is reported by its own check or verdict
    if not await _is_right(judge, database, gold_sql, alternatives.same):
        return Decision(unchecked="it cannot be rewritten with the same result")
    numbers = [await _has_text_numbers(judge, database, probe) for probe in alternatives.probes]
    pairs = alternatives.pairs(len(gold.columns), numbers)
    return await _compare_pairs(judge, database, gold_sql, pairs, rows)


async def _compare_pairs(
    judge: Judge, database: Database, gold_sql: str, pairs: Iterable[AlternativePair], rows: int
) -> Decision:
    """Compare the results of each pair of alternatives: where they differ, the data do not decide the gold's result."""
    findings: list[Finding] = []
    unchecked = []
    for pair in pairs:
        verdict = (await judge.verdicts(database, pair.one, {"other": pair.other}))["other"]
        if verdict.gold_status != "ok" or verdict.status != "ok":
            unchecked.append(f"{pair.kind} ({verdict.error or verdict.gold_status})")
            continue
        # a gold with LIMIT and without ORDER BY asks for no order of its rows
        only_order = pair.kind == "limit_without_order" and verdict.difference == "row_order"
        if is_right(verdict, judge.rules[0]) or only_order:
            continue
        # the rewriting must keep the gold's result; after a tie the result of the gold itself may vary
        tied = any(finding.pair.kind in TIES for finding in findings)
        must_equal_gold = pair.kind in ("null_order", "float_sum") and not tied
        if must_equal_gold and not await _is_right(judge, database, gold_sql, pair.one):
            unchecked.append(f"{pair.kind} (the rewritten gold has another result)")
            continue
        findings.append(await _finding_with_rows(judge, database, pair, rows))
    return Decision(tuple(findings), "; ".join(unchecked))


async def _is_right(judge: Judge, database: Database, gold_sql: str, sql: str) -> bool:
    return is_right((await judge.verdicts(database, gold_sql, {"": sql}))[""], judge.rules[0])


async def _has_text_numbers(judge: Judge, database: Database, probe: str) -> bool:
    execution = await judge.workers.execute(database, probe, rows=MAX_VALUES, timeout_s=judge.timeout_s)
    values = [row[0] for row in execution.rows if row[0] is not None] if execution.ok else []
    return len(values) > 1 and all(isinstance(value, str) and _NUMBER.fullmatch(value) for value in values)


async def _finding_with_rows(judge: Judge, database: Database, pair: AlternativePair, rows: int) -> Finding:
    """Return a finding with `rows` rows that only one of its two results has; if there are none, with first rows."""
    if not rows:
        return Finding(pair)
    one, other = [
        await judge.workers.execute(database, sql, rows=MAX_ROWS, timeout_s=judge.timeout_s)
        for sql in (pair.one, pair.other)
    ]
    only_one, only_other = _rows_only_in(one, other), _rows_only_in(other, one)
    if not only_one and not only_other:
        only_one, only_other = one.rows, other.rows
    return Finding(pair, one.columns, only_one[:rows], only_other[:rows])


def _rows_only_in(result: Execution, alternative: Execution) -> tuple[tuple[Any, ...], ...]:
    """Return the rows that a result has and its alternative lacks, each as often as the alternative lacks it.

    Rows are compared by their `repr`, so 1 and 1.0 differ.
    """
    unmatched = Counter(map(repr, alternative.rows))
    only_in_result = []
    for row in result.rows:
        if unmatched[repr(row)]:
            unmatched[repr(row)] -= 1
        else:
            only_in_result.append(row)
    return tuple(only_in_result)

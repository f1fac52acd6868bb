"""Checks without a model, Prefect and MLflow: of all gold queries of a benchmark, and of an answer key."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flows.evaluate.scorer import why_sql_fails
from flows.runtime.control import Progress, for_each
from flows.runtime.folders import Folders
from tasks.benchmarks.answer_keys import AnswerKey, KeyEntry
from tasks.benchmarks.benchmark import Benchmark
from tasks.core.errors import DataError
from tasks.core.records import Execution, Question
from tasks.database.database import Database, open_database, product_of
from tasks.database.dialects import SQLITE
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.gold_check import (
    Decision,
    GoldCheck,
    GoldReport,
    Golds,
    SplitName,
    check_golds,
    decide,
    read_golds,
)
from tasks.scoring.execution.rules import strict
from tasks.scoring.execution.suite import judge_golds, open_suites
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.scoring.scores import is_right
from tasks.settings.benchmark import BenchmarkSettings

SHOWN_ROWS = 3
"""Rows that only one of two alternatives has, of each."""
COMPARED_ROWS = 10_000
"""Rows of a translated gold that are compared with those of the gold as written."""


def open_databases(
    benchmark: Benchmark, names: Iterable[str], progress: Progress, broken: dict[str, str] | None = None
) -> dict[str, Database]:
    """Open databases of a benchmark by their ids, each once; missing ones are left out.

    Where `broken` is given, it receives the reason of each database that is there and cannot be read; without it, the
    first of them raises.
    """
    present = [name for name in dict.fromkeys(names) if benchmark.exists(name)]
    databases: dict[str, Database] = {}
    for number, name in enumerate(present, start=1):
        progress.step(f"Reading database {number} of {len(present)}")
        try:
            databases[name] = open_database(benchmark.location(name), name, sample_rows=0)
        except DataError as error:
            if broken is None:
                raise
            broken[name] = str(error)
    return databases


@dataclass(frozen=True)
class Verified:
    """Result of verifying a benchmark's gold SQL."""

    benchmark: BenchmarkSettings
    golds: Golds = field(repr=False)
    report: GoldReport = field(repr=False)
    digest: str  # sha256 of the evaluated questions' file
    engine: str  # name and version of what executed them
    translated: str  # what was done where sqlglot translated them, "" elsewhere
    # ids of translated golds whose result differs from that of the original gold in the benchmark's SQLite file
    differing: tuple[str, ...] = ()
    # by gold id, whether the data decide its result: of golds that run. None: not looked for
    decisions: Mapping[str, Decision] | None = field(default=None, repr=False)

    @property
    def undecided(self) -> dict[str, Decision]:
        """The golds that the data do not decide, by id."""
        return {name: decision for name, decision in (self.decisions or {}).items() if decision.findings}

    @property
    def unchecked(self) -> dict[str, str]:
        """What could not be checked of golds, by id."""
        decisions = (self.decisions or {}).items()
        return {name: decision.unchecked for name, decision in decisions if decision.unchecked}

    @property
    def counts(self) -> dict[str, int]:
        """How many golds there are of each class, and how many are slow."""
        return {**self.report.counts, "slow": len(self.report.slow)}

    @property
    def suggested(self) -> tuple[str, ...]:
        """Ids for the benchmark's quarantine list: the present ones, and those of which every gold SQL fails."""
        faults = {check.id for check in self.report.faults} - {check.id for check in self.report.finished}
        if self.golds.by_question:
            faults |= set(self.benchmark.quarantine)
        order = {gold.id: position for position, gold in enumerate(self.golds.golds)}
        return tuple(sorted(faults, key=lambda name: order.get(name, len(order))))


def run_verify_gold(
    settings: BenchmarkSettings,
    folders: Folders,
    progress: Progress,
    *,
    split: SplitName,
    file: Path | None,
    slow_s: float,
    undecided: bool,
) -> Verified:
    """Run every gold query of a split, or of a file of other gold queries, and classify it.

    A query that takes more than `slow_s` seconds counts as slow. With `undecided`, golds that the data do not decide
    are looked for.
    """
    name = settings.name
    progress.step(f"Reading {name}")
    benchmark = folders.benchmark(settings, progress)
    golds = read_golds(benchmark, split, file)
    database_ids = dict.fromkeys(gold.database_id for gold in golds.golds)
    broken: dict[str, str] = {}
    databases = open_databases(benchmark, database_ids, progress, broken)
    if not (databases or broken):
        raise DataError(
            f"{name}: none of the {len(database_ids)} databases of {golds.source} is there; the first would be "
            f"{benchmark.location(next(iter(database_ids)))}."
        )
    suites = open_suites(benchmark, databases)
    translated = "" if file or split != "dev" else benchmark.translated
    done = 0

    def count(check: GoldCheck) -> None:
        nonlocal done
        done += 1
        if done % 10 == 0 or done == len(golds.golds):
            progress.step(f"Running gold {done:,} of {len(golds.golds):,}")

    async def run() -> Verified:
        differing: tuple[str, ...] = ()
        decisions = None
        async with SqlWorkers() as workers:
            checks = await check_golds(
                workers, suites, golds.golds, timeout_s=settings.timeout_s, broken=broken, on_check=count
            )
            report = GoldReport(checks, slow_s)
            if translated and benchmark.settings.dialect == SQLITE:
                differing = await _differing(report, benchmark, databases, workers)
            if undecided:
                with VerdictCache(folders.home.verdicts, workers.limits) as cache:
                    judge = Judge(workers, (settings.rule,), settings.timeout_s, cache)
                    decisions = await _decisions(report, databases, judge, progress)
        product = product_of(databases)
        return Verified(settings, golds, report, benchmark.digest, product, translated, differing, decisions)

    return asyncio.run(run())


async def _differing(
    report: GoldReport, benchmark: Benchmark, databases: Mapping[str, Database], workers: SqlWorkers
) -> tuple[str, ...]:
    """Return the translated golds whose result differs from that of the original in the benchmark's SQLite file.

    A result of more than `COMPARED_ROWS` rows, or a file that the benchmark's folder lacks, is not compared.
    """
    originals = {
        name: open_database(path, name, sample_rows=0)
        for name in databases
        if (path := benchmark.database_path(name)).is_file()
    }

    async def differs(check: GoldCheck) -> bool:
        sqls = (
            (originals[check.database_id], benchmark.written_gold[check.id][0]),
            (databases[check.database_id], check.sql),
        )
        original, translated = [
            await workers.execute(database, sql, rows=COMPARED_ROWS, timeout_s=benchmark.settings.timeout_s)
            for database, sql in sqls
        ]
        both_complete = all(
            result.ok and len(result.rows) == result.row_count for result in (original, translated)
        )
        return both_complete and not strict(original.rows, translated.rows, ordered=False)

    checks = [check for check in report.first_finished if check.database_id in originals]
    results = await asyncio.gather(*map(differs, checks))
    return tuple(check.id for check, is_different in zip(checks, results, strict=True) if is_different)


async def _decisions(
    report: GoldReport, databases: Mapping[str, Database], judge: Judge, progress: Progress
) -> dict[str, Decision]:
    """Look at the first gold of every question, if it runs, with as many at a time as there are workers."""
    checks = report.first_finished

    async def look(check: GoldCheck) -> Decision:
        return await decide(judge, databases[check.database_id], check.sql, rows=SHOWN_ROWS)

    step = "Running alternatives of gold {}"
    decisions = await for_each(checks, look, progress, step, at_once=2 * judge.workers.size)
    return {check.id: decision for check, decision in zip(checks, decisions, strict=True)}


@dataclass(frozen=True)
class CheckedSql:
    """One SQL of a key."""

    sql: str
    execution: Execution | None  # None where the database is missing
    # whether its result is that of an official gold; None where either did not finish, or there is no official gold SQL
    same: bool | None


@dataclass(frozen=True)
class CheckedEntry:
    """What a key changes of one question, with each of its SQLs in order."""

    entry: KeyEntry
    question: Question  # as the benchmark has it
    sqls: tuple[CheckedSql, ...]

    @property
    def other_text(self) -> bool:
        """Whether its question or evidence is another than the benchmark's."""
        return not self.entry.has_text_of(self.question)


@dataclass(frozen=True)
class CheckedKey:
    """An answer key and what was found."""

    benchmark: BenchmarkSettings
    key: AnswerKey = field(repr=False)
    entries: tuple[CheckedEntry, ...] = field(repr=False)  # its valid entries, in file order

    @property
    def actions(self) -> Mapping[str, int]:
        """Number of entries by action."""
        return Counter(entry.entry.action for entry in self.entries)

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that is wrong with the file, SQL that does not run among it."""
        failing = (
            why_sql_fails(entry.entry.question_id, sql.sql, sql.execution)
            for entry in self.entries
            for sql in entry.sqls
            if sql.execution is not None and not sql.execution.ok
        )
        return (*self.key.problems, *failing)

    @property
    def other_text(self) -> tuple[str, ...]:
        """Ids of questions whose text is another under the key, which scores no answers to the benchmark's own text."""
        return tuple(entry.entry.question_id for entry in self.entries if entry.other_text)

    @property
    def differing(self) -> tuple[str, ...]:
        """Ids of questions that have an SQL with another result than the official gold."""
        return self._ids(lambda gold: gold.same is False)

    @property
    def same(self) -> tuple[str, ...]:
        """Ids of questions that have an SQL with the result of the official gold, which changes no verdict."""
        return self._ids(lambda gold: gold.same is True)

    @property
    def not_run(self) -> tuple[str, ...]:
        """Ids of questions whose database is missing."""
        return self._ids(lambda gold: gold.execution is None)

    def _ids(self, condition: Callable[[CheckedSql], bool]) -> tuple[str, ...]:
        return tuple(entry.entry.question_id for entry in self.entries if any(map(condition, entry.sqls)))


def check_key(settings: BenchmarkSettings, item: str, folders: Folders, progress: Progress) -> CheckedKey:
    """Run every SQL of an answer key, a file of corrected golds; `item` is the key, as in `benchmark.answer_keys`."""
    progress.step(f"Reading {settings.name}")
    plain = settings.model_copy(update={"answer_keys": (item,)})
    benchmark = folders.benchmark(plain, progress)
    questions = {question.id: question for question in benchmark.questions}
    (key,) = benchmark.keys
    databases = open_databases(benchmark, [questions[name].database_id for name in key.entries], progress)
    suites = open_suites(benchmark, databases)

    async def run() -> list[CheckedEntry]:
        async with SqlWorkers() as workers:
            judge = Judge(workers, (plain.rule,), plain.timeout_s)

            async def check(entry: KeyEntry) -> CheckedEntry:
                question = questions[entry.question_id]
                suite = suites.get(question.database_id, ())
                return await _check(entry, question, benchmark, suite, judge)

            return await for_each(key.entries.values(), check, progress, "Checked the SQL of question {}")

    return CheckedKey(plain, key, tuple(asyncio.run(run())))


async def _check(
    entry: KeyEntry, question: Question, benchmark: Benchmark, suite: Sequence[Database], judge: Judge
) -> CheckedEntry:
    """Run every SQL of an entry, and compare its result with those of the official golds."""
    gold = benchmark.gold.get(entry.question_id)
    golds = (*([gold] if gold else []), *benchmark.further_gold.get(entry.question_id, ()))
    if not suite:
        sqls = tuple(CheckedSql(sql, execution=None, same=None) for sql in entry.sql)
        return CheckedEntry(entry, question, sqls)

    candidates: Mapping[str, str] = {str(position): sql for position, sql in enumerate(entry.sql)}
    verdicts = (await judge_golds(judge, suite, golds, candidates)).all if golds and candidates else {}
    checked = []
    for position, sql in candidates.items():
        execution = await judge.workers.execute(suite[0], sql, rows=0, timeout_s=judge.timeout_s)
        verdict = verdicts.get(position)
        finished = execution.ok and verdict is not None and verdict.gold_status == "ok"
        checked.append(CheckedSql(sql, execution, is_right(verdict, judge.rules[0]) if finished else None))
    return CheckedEntry(entry, question, tuple(checked))

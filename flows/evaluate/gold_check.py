"""Run of all gold queries of a benchmark, without a model, Prefect and MLflow."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.gold_files import Golds, SplitName, read_golds
from tasks.core.errors import DataError
from tasks.database.database import Database, open_database, product_of
from tasks.database.dialects import SQLITE
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.gold_check import GoldCheck, GoldReport, check_golds
from tasks.scoring.execution.rules import strict
from tasks.scoring.execution.suite import open_suites
from tasks.scoring.execution.undecided_golds import Decision, decide
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.settings.benchmark import BenchmarkSettings


def open_databases(
    benchmark: Benchmark, names: Iterable[str], progress: Progress, broken: dict[str, str] | None = None
) -> dict[str, Database]:
    """Open databases of a benchmark by their ids, each once; missing ones are left out.

    Where `broken` is given, it receives the reason of each database that is there and cannot be read.
    """
    present = [name for name in dict.fromkeys(names) if benchmark.exists(name)]
    databases: dict[str, Database] = {}
    for place, name in enumerate(present, start=1):
        progress.step(f"Reading database {place} of {len(present)}")
        try:
            databases[name] = open_database(benchmark.location(name), name, sample_rows=0)
        except DataError as error:
            if broken is None:
                raise
            broken[name] = str(error)
    return databases


SHOWN_ROWS = 3
"""Rows that only one of two alternatives has, of each."""
COMPARED_ROWS = 10_000
"""Rows of a translated gold that are compared with those of the gold as written."""


@dataclass(frozen=True)
class GoldSettings:
    """Settings of a verification."""

    benchmark: BenchmarkSettings
    split: SplitName  # split of the gold queries
    file: Path | None  # file of other gold queries; None for those of the split
    slow_s: float  # seconds above which a query counts as slow
    undecided: bool = True  # whether to look for golds that the data do not decide


@dataclass(frozen=True)
class Verified:
    """Result of verifying a benchmark's gold SQL."""

    benchmark: BenchmarkSettings
    golds: Golds = field(repr=False)  # the gold queries
    report: GoldReport = field(repr=False)  # their results
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
        return {
            name: decision.unchecked
            for name, decision in (self.decisions or {}).items()
            if decision.unchecked
        }

    @property
    def counts(self) -> dict[str, int]:
        """How many golds there are of each class, and how many are slow."""
        return {**self.report.counts, "slow": len(self.report.slow)}

    @property
    def suggested(self) -> tuple[str, ...]:
        """Ids for the benchmark's quarantine list: the present ones, and those whose gold SQL fails."""
        faults = {check.id for check in self.report.faults}
        if self.golds.by_question:
            faults |= set(self.benchmark.quarantine)
        order = {gold.id: place for place, gold in enumerate(self.golds.golds)}
        return tuple(sorted(faults, key=lambda name: order.get(name, len(order))))


def run_verify_gold(settings: GoldSettings, folders: Folders, progress: Progress) -> Verified:
    """Run every gold query and classify it."""
    name = settings.benchmark.name
    progress.step(f"Reading {name}")
    benchmark = folders.benchmark(settings.benchmark, progress)
    golds = read_golds(benchmark, settings.split, settings.file)
    database_ids = dict.fromkeys(gold.database_id for gold in golds.golds)
    present = [name for name in database_ids if benchmark.exists(name)]
    if not present:
        raise DataError(
            f"{name}: none of the {len(database_ids)} databases of {golds.source} is there; the first would be "
            f"{benchmark.location(next(iter(database_ids)))}."
        )
    broken: dict[str, str] = {}
    databases = open_databases(benchmark, present, progress, broken)
    suites = open_suites(benchmark, databases)
    translated = "" if settings.file or settings.split != "dev" else benchmark.translated
    done = 0

    def count(check: GoldCheck) -> None:
        nonlocal done
        done += 1
        if done % 10 == 0 or done == len(golds.golds):
            progress.step(f"Running gold {done:,} of {len(golds.golds):,}")

    compares = bool(translated) and benchmark.settings.dialect == SQLITE

    async def run() -> tuple[GoldReport, dict[str, Decision] | None, tuple[str, ...]]:
        async with SqlWorkers() as workers:
            checks = await check_golds(
                workers,
                suites,
                golds.golds,
                timeout_s=settings.benchmark.timeout_s,
                broken=broken,
                on_check=count,
            )
            report = GoldReport(checks, settings.slow_s)
            differing = await _differing(report, benchmark, databases, workers) if compares else ()
            if not settings.undecided:
                return report, None, differing
            with VerdictCache(folders.home.verdicts, workers.limits) as cache:
                judge = Judge(workers, (settings.benchmark.rule,), settings.benchmark.timeout_s, cache)
                return report, await _decisions(report, databases, judge, progress), differing

    report, decisions, differing = asyncio.run(run())
    product = product_of(databases)
    return Verified(
        settings.benchmark, golds, report, benchmark.digest, product, translated, differing, decisions
    )


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
            (originals[check.database_id], benchmark.written_gold[check.id]),
            (databases[check.database_id], check.sql),
        )
        one, other = [
            await workers.execute(database, sql, rows=COMPARED_ROWS, timeout_s=benchmark.settings.timeout_s)
            for database, sql in sqls
        ]
        whole = all(result.ok and len(result.rows) == result.row_count for result in (one, other))
        return whole and not strict(one.rows, other.rows, ordered=False)

    checks = [
        check
        for check in report.checks
        if check.found in ("rows", "empty") and check.database_id in originals
    ]
    results = await asyncio.gather(*map(differs, checks))
    return tuple(check.id for check, is_different in zip(checks, results, strict=True) if is_different)


async def _decisions(
    report: GoldReport, databases: Mapping[str, Database], judge: Judge, progress: Progress
) -> dict[str, Decision]:
    """Look at every gold that runs, with as many at a time as there are workers."""
    checks = [check for check in report.checks if check.found in ("rows", "empty")]
    places = asyncio.Semaphore(2 * judge.workers.size)
    done = 0

    async def one(check: GoldCheck) -> Decision:
        nonlocal done
        async with places:
            decision = await decide(judge, databases[check.database_id], check.sql, rows=SHOWN_ROWS)
        done += 1
        if done % 10 == 0 or done == len(checks):
            progress.step(f"Running alternatives of gold {done:,} of {len(checks):,}")
        return decision

    decisions = await asyncio.gather(*map(one, checks))
    return {check.id: decision for check, decision in zip(checks, decisions, strict=True)}

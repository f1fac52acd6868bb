"""Run of all gold queries of a benchmark, without a model, Prefect and MLflow."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flows.benchmarks.databases import open_databases
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.benchmarks.gold_files import Golds, SplitName, read_golds
from tasks.core.errors import DataError
from tasks.database.database import Database, product_of
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.scoring.golds.gold_check import GoldCheck, GoldReport, check_golds
from tasks.scoring.golds.undecided import Decision, decide
from tasks.settings.benchmark import BenchmarkSettings

SHOWN_ROWS = 3
"""Rows that only one of two alternatives has, of each."""


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
    # by gold id, whether the data decide its result: of golds that run. None: not looked for
    decisions: Mapping[str, Decision] | None = field(default=None, repr=False)

    @property
    def undecided(self) -> dict[str, Decision]:
        """The golds that the data do not decide, by id."""
        return {name: found for name, found in (self.decisions or {}).items() if found.findings}

    @property
    def suggested(self) -> tuple[str, ...]:
        """Ids for the benchmark's quarantine list: the present ones, and those whose gold SQL fails."""
        found = {check.id for check in self.report.faults}
        if self.golds.by_question:
            found |= set(self.benchmark.quarantine)
        order = {gold.id: place for place, gold in enumerate(self.golds.golds)}
        return tuple(sorted(found, key=lambda name: order.get(name, len(order))))


def run_verify_gold(settings: GoldSettings, folders: Folders, progress: Progress) -> Verified:
    """Run every gold query and classify it.

    Raises:
        DataError: a file is missing or malformed, or there is no database.
    """
    name = settings.benchmark.name
    progress.step(f"Reading {name}")
    benchmark = folders.benchmark(settings.benchmark, progress)
    golds = read_golds(benchmark, settings.split, settings.file)
    wanted = dict.fromkeys(gold.database_id for gold in golds.golds)
    present = [name for name in wanted if benchmark.exists(name)]
    if not present:
        raise DataError(
            f"{name}: none of the {len(wanted)} databases of {golds.source} is there; the first would be "
            f"{benchmark.location(next(iter(wanted)))}."
        )
    broken: dict[str, str] = {}
    databases = open_databases(benchmark, present, progress, broken)
    done = 0

    def count(check: GoldCheck) -> None:
        nonlocal done
        done += 1
        if done % 10 == 0 or done == len(golds.golds):
            progress.step(f"Running gold {done:,} of {len(golds.golds):,}")

    async def run() -> tuple[GoldReport, dict[str, Decision] | None]:
        async with SqlWorkers() as workers:
            checks = await check_golds(
                workers,
                databases,
                golds.golds,
                timeout_s=settings.benchmark.timeout_s,
                broken=broken,
                on_check=count,
            )
            report = GoldReport(checks, settings.slow_s)
            if not settings.undecided:
                return report, None
            with VerdictCache(folders.home.verdicts, workers.limits) as cache:
                judge = Judge(workers, (settings.benchmark.rule,), settings.benchmark.timeout_s, cache)
                return report, await _decisions(report, databases, judge, progress)

    report, decisions = asyncio.run(run())
    translated = "" if settings.file or settings.split != "dev" else benchmark.translated
    product = product_of(databases)
    return Verified(settings.benchmark, golds, report, benchmark.digest, product, translated, decisions)


async def _decisions(
    report: GoldReport, databases: Mapping[str, Database], judge: Judge, progress: Progress
) -> dict[str, Decision]:
    """Look at every gold that runs, with as many at a time as there are workers."""
    wanted = [check for check in report.checks if check.found in ("rows", "empty")]
    places = asyncio.Semaphore(2 * judge.workers.size)
    done = 0

    async def one(check: GoldCheck) -> Decision:
        nonlocal done
        async with places:
            found = await decide(judge, databases[check.database_id], check.sql, rows=SHOWN_ROWS)
        done += 1
        if done % 10 == 0 or done == len(wanted):
            progress.step(f"Running alternatives of gold {done:,} of {len(wanted):,}")
        return found

    found = await asyncio.gather(*map(one, wanted))
    return {check.id: decision for check, decision in zip(wanted, found, strict=True)}

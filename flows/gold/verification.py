"""Run of all gold queries of a benchmark, without a model, Prefect and MLflow."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from flows.gold.databases import open_databases
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.benchmarks.gold_files import Golds, SplitName, read_golds
from tasks.core.errors import DataError
from tasks.database.database import product_of
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.gold_check import GoldCheck, GoldReport, check_golds
from tasks.settings.benchmark import BenchmarkSettings


@dataclass(frozen=True)
class GoldSettings:
    """Settings of a verification."""

    benchmark: BenchmarkSettings
    split: SplitName  # split of the gold queries
    file: Path | None  # file of other gold queries; None for those of the split
    slow_s: float  # seconds above which a query counts as slow


@dataclass(frozen=True)
class Verified:
    """Result of verifying a benchmark's gold SQL."""

    benchmark: BenchmarkSettings
    golds: Golds = field(repr=False)  # the gold queries
    report: GoldReport = field(repr=False)  # their results
    digest: str  # sha256 of the evaluated questions' file
    engine: str  # name and version of what executed them
    translated: str  # what was done where sqlglot translated them, "" elsewhere

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

    async def run() -> tuple[GoldCheck, ...]:
        async with SqlWorkers() as workers:
            return await check_golds(
                workers,
                databases,
                golds.golds,
                timeout_s=settings.benchmark.timeout_s,
                broken=broken,
                on_check=count,
            )

    report = GoldReport(asyncio.run(run()), settings.slow_s)
    translated = "" if settings.file or settings.split != "dev" else benchmark.translated
    return Verified(settings.benchmark, golds, report, benchmark.digest, product_of(databases), translated)

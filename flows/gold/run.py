"""Runs every gold query of a benchmark: no model, no Prefect, no MLflow."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

from flows.runtime.control import Progress
from tasks.benchmarks.benchmark import load_benchmark
from tasks.benchmarks.gold_files import Golds, Split, read_golds
from tasks.database.database import Database, open_database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.errors import DataError
from tasks.scoring.execution.gold_check import GoldCheck, GoldReport, check_golds
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.home import Home, find_conf


@dataclass(frozen=True)
class Verified:
    """What came of verifying a benchmark's gold.

    Attributes:
        benchmark: its settings.
        golds: what was run.
        report: what running it gave.
        digest: sha256 of the evaluated questions' file.
    """

    benchmark: BenchmarkSettings
    golds: Golds = field(repr=False)
    report: GoldReport = field(repr=False)
    digest: str

    @property
    def suggested(self) -> tuple[str, ...]:
        """Ids for the benchmark's quarantine list: gold under which no prediction can be right, and what is there."""
        found = {check.id for check in self.report.faults}
        if self.golds.by_question:
            found |= set(self.benchmark.quarantine)
        order = {gold.id: place for place, gold in enumerate(self.golds.golds)}
        return tuple(sorted(found, key=lambda name: order.get(name, len(order))))


def run_verify_gold(
    settings: BenchmarkSettings,
    *,
    split: Split,
    file: Path | None,
    slow_s: float,
    data: Path,
    home: Home,
    progress: Progress,
) -> Verified:
    """Run every gold query and classify it.

    Raises:
        DataError: a file is missing or malformed, or no database is there.
    """
    progress.step(f"Reading {settings.name}")
    benchmark = load_benchmark(settings, data=data, home=home.path, conf=find_conf(), progress=progress.step)
    golds = read_golds(benchmark, split, file)
    wanted = dict.fromkeys(gold.database_id for gold in golds.golds)
    present = [name for name in wanted if benchmark.database_path(name).is_file()]
    if not present:
        raise DataError(
            f"{settings.name}: none of the {len(wanted)} databases of {golds.source} is there; the first would be "
            f"{benchmark.database_path(next(iter(wanted)))}."
        )
    databases: dict[str, Database] = {}
    broken: dict[str, str] = {}
    for place, name in enumerate(present, start=1):
        progress.step(f"Reading database {place} of {len(present)}")
        try:
            databases[name] = open_database(benchmark.database_path(name), name, sample_rows=0)
        except DataError as error:
            broken[name] = str(error)
    done = 0

    def count(check: GoldCheck) -> None:
        nonlocal done
        done += 1
        if done % 10 == 0:
            progress.step(f"Running gold {done:,} of {len(golds.golds):,}")

    async def run() -> GoldReport:
        async with SqlWorkers() as workers:
            return await check_golds(
                workers,
                databases,
                golds.golds,
                timeout_s=settings.timeout_s,
                slow_s=slow_s,
                broken=broken,
                on_check=count,
            )

    return Verified(settings, golds, asyncio.run(run()), benchmark.digest)

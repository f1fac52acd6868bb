"""Run of `crosscheck load`: copies of a benchmark's SQLite databases, one after the other."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.databases import open_benchmark_database
from tasks.core.errors import ConfigurationError, DataError, did_you_mean
from tasks.database.database import dialect_named, locate
from tasks.database.engine import engine_of
from tasks.database.loading.load import LoadChoice, Loaded, load_database
from tasks.settings.benchmark import BenchmarkSettings

PLACE = "{database}"
EVERY_S = 0.2
"""Seconds between two displays of the rows that were copied."""


@dataclass(frozen=True)
class LoadSettings:
    """Settings of copying."""

    benchmark: BenchmarkSettings  # whose databases
    to: str  # URL with `{database}` for the id of each
    databases: tuple[str, ...]  # ids; () for all that are there
    choice: LoadChoice  # how they are copied


def run_load(settings: LoadSettings, folders: Folders, progress: Progress) -> Iterator[Loaded]:
    """Copy the databases and yield each when it is done; one that was copied before is not copied again.

    Raises:
        CrosscheckError: a file is missing, the server refuses, or tables of others are in the way.
    """
    # the files are read, whatever server the benchmark is configured for
    files = settings.benchmark.model_copy(update={"url": ""})
    benchmark = folders.benchmark(files, progress)
    names = _chosen(benchmark, settings.databases)
    if len(names) > 1 and PLACE not in settings.to:
        raise ConfigurationError(
            f"--to {_shown(settings.to)}: {len(names)} databases would be one. Write {PLACE} where the name of each "
            "belongs, as in postgresql://owner@host/{database}, or name one with --databases."
        )
    targets = {name: locate(settings.to.replace(PLACE, quote(name, safe=""))) for name in names}
    for place, (name, to) in enumerate(targets.items(), 1):
        about = f"{name} ({place} of {len(targets)})"
        progress.step(f"Reading {about}")
        database = open_benchmark_database(benchmark, name, 0)
        yield load_database(database, to, settings.choice, _row_display(about, progress))


def _chosen(benchmark: Benchmark, wanted: tuple[str, ...]) -> tuple[str, ...]:
    known = tuple(dict.fromkeys(question.database_id for question in benchmark.questions))
    for name in wanted:
        if name not in known:
            raise ConfigurationError(
                f'--databases: there is no database "{name}". {did_you_mean(name, known)}'
            )
    chosen = tuple(dict.fromkeys(wanted)) or known
    there = tuple(name for name in chosen if name not in benchmark.missing)
    if not there or (wanted and len(there) < len(chosen)):
        absent = next(name for name in chosen if name not in there)
        raise DataError(
            f"{benchmark.settings.name}: the database {absent} is not at {benchmark.location(absent)}. "
            f"{benchmark.where_from}"
        )
    return there


def _shown(url: str) -> str:
    """Return a URL without its password."""
    return str(locate(url.replace(PLACE, "database"))) if "://" in url else url


def _row_display(about: str, progress: Progress) -> Callable[[int, int], None]:
    """Return a function that shows how many rows were copied, a few times a second."""
    shown = 0.0

    def show(rows: int, total: int) -> None:
        nonlocal shown
        if time.monotonic() - shown > EVERY_S or rows == total:
            shown = time.monotonic()
            progress.step(f"Copying {about}: {rows:,} of {total:,} rows")

    return show


def evaluating(settings: LoadSettings, role: str) -> list[str]:
    """Return the options of an evaluation on the copies."""
    engine = engine_of(locate(settings.to))
    chosen = [f"benchmark.url={reading_url(settings.to, role)}"]
    if settings.benchmark.has_dialects:
        chosen.append(f"benchmark.dialect={engine.name}")
    elif dialect_named(settings.benchmark.dialect or engine.name) != engine.dialect:
        chosen.append("benchmark.transpile_gold=true")
    return [part for setting in chosen for part in ("--set", setting)]


def reading_url(to: str, role: str) -> str:
    """Return the URL of the copies for `benchmark.url`, as a role that only reads, without a password.

    >>> reading_url("postgresql://owner:secret@host/{database}", "reader")
    'postgresql://reader@host/{database}'
    """
    if "@" not in to:
        return to
    scheme, _, rest = to.partition("://")
    return f"{scheme}://{quote(role)}@{rest.rpartition('@')[2]}"

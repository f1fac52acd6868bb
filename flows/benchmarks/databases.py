"""The databases that golds are run on."""

from collections.abc import Iterable

from flows.runtime.control import Progress
from tasks.benchmarks.benchmark import Benchmark
from tasks.core.errors import DataError
from tasks.database.database import Database, open_database


def open_databases(
    benchmark: Benchmark, names: Iterable[str], progress: Progress, broken: dict[str, str] | None = None
) -> dict[str, Database]:
    """Open databases of a benchmark by their ids, each once; missing ones are left out.

    Where `broken` is given, it receives the reason of each database that is there and cannot be read.

    Raises:
        DataError: one that is there cannot be read, and `broken` is None.
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

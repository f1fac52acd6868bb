"""What a re-run demands of the benchmark's files: the questions and databases of its run."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from flows.evaluate.rerun import check_data
from tasks.benchmarks.benchmark import load_benchmark
from tasks.benchmarks.databases import open_benchmark_database
from tasks.core.errors import DataError
from tasks.database.database import digests_of
from tasks.settings.home import find_conf
from tasks.settings.load import load_benchmark_settings
from tests.tasks.results.samples import make_run


def test_a_database_that_changed_since_the_run_is_refused(built_demo: Path, tmp_path: Path) -> None:
    home = shutil.copytree(built_demo, tmp_path / "home")
    settings = load_benchmark_settings(find_conf(), "demo")
    benchmark = load_benchmark(settings, data=home, home=home, conf=find_conf())
    name = benchmark.questions[0].database_id

    def check() -> None:
        databases = {name: open_benchmark_database(benchmark, name, 0)}
        run = make_run(question_sha256=benchmark.digest, databases=before)
        check_data(run, benchmark, databases)

    before = digests_of({name: open_benchmark_database(benchmark, name, 0)})
    check()
    with closing(sqlite3.connect(benchmark.database_path(name))) as connection, connection:
        connection.execute("CREATE TABLE further (a INTEGER)")
    with pytest.raises(DataError, match=f'The database "{name}" has changed since run 20261121'):
        check()

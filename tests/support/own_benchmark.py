"""A benchmark of a user's own: two of the demo's databases in BIRD's layout, in a folder of their choosing."""

import csv
import json
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

DATABASES = ("city_library", "film_festival")
HEADER = ("original_column_name", "column_name", "column_description", "data_format", "value_description")


@dataclass(frozen=True)
class OwnBenchmark:
    """Files in BIRD's layout and the settings that name them.

    Attributes:
        folder: where the files are.
        file: the settings; what `--benchmark` takes.
    """

    folder: Path
    file: Path

    def database(self, name: str) -> Path:
        """Return the place of a database."""
        return self.folder / "dev_databases" / name / f"{name}.sqlite"

    def remove(self, name: str) -> None:
        """Take a database away."""
        self.database(name).unlink()

    def describe_no_column_of(self, name: str, table: str) -> None:
        """Forget the descriptions of a table."""
        (self.database(name).parent / "database_description" / f"{table}.csv").unlink()

    def undescribe(self, name: str, table: str, column: str) -> None:
        """Forget the description of a column."""
        path = self.database(name).parent / "database_description" / f"{table}.csv"
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        kept = [row for row in rows if row[0] != column]
        assert len(kept) == len(rows) - 1
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(kept)


@pytest.fixture
def own_benchmark(built_demo: Path, tmp_path: Path) -> OwnBenchmark:
    """Six questions on each of two databases, every column described."""
    source, folder = built_demo / "benchmarks" / "demo", tmp_path / "my data" / "mine"
    folder.mkdir(parents=True)
    questions = json.loads((source / "dev.json").read_text(encoding="utf-8"))
    mine = [
        question
        for name in DATABASES
        for question in [each for each in questions if each["db_id"] == name][:6]
    ]
    (folder / "dev.json").write_text(json.dumps(mine), encoding="utf-8")
    for file in ("dev_tables.json", "train.json"):
        shutil.copy(source / file, folder)
    for name in DATABASES:
        shutil.copytree(source / "dev_databases" / name, folder / "dev_databases" / name)
        _describe_everything(folder / "dev_databases" / name, name)
    settings = {
        "layout": "bird",
        "folder": "mine",
        "train": "train.json",
        "revision": "mine 1",
        "rule": "strict",
        "source": "the office next door",
    }
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return OwnBenchmark(folder, file)


def _describe_everything(folder: Path, name: str) -> None:
    with closing(sqlite3.connect(folder / f"{name}.sqlite")) as connection:
        columns = connection.execute(
            "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c WHERE t.type = 'table'"
        ).fetchall()
    described: dict[str, list[str]] = {}
    for table, column in columns:
        described.setdefault(table, []).append(column)
    for table, names in described.items():
        path = folder / "database_description" / f"{table}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = [[column, "", f"what {column} holds", "", ""] for column in names]
            csv.writer(file).writerows([HEADER, *rows])

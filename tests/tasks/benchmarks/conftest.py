"""Small benchmarks in the layouts of BIRD and Spider, with real SQLite files."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tasks.benchmarks.benchmark import Benchmark, load_benchmark
from tasks.settings.benchmark import BenchmarkSettings

SHOP = [
    "CREATE TABLE Customers (id INTEGER PRIMARY KEY, Name TEXT, town TEXT)",
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, total REAL)",
    "INSERT INTO Customers VALUES (1, 'Ada', 'Bath'), (2, 'Bob', 'Ayr')",
    "INSERT INTO orders VALUES (1, 1, 9.5)",
]
SHOP_ENTRY = {
    "db_id": "shop",
    "table_names_original": ["Customers", "orders"],
    "column_names_original": [
        [-1, "*"], [0, "id"], [0, "Name"], [0, "town"], [1, "id"], [1, "customer"], [1, "total"],
    ],
    "column_types": ["text", "integer", "text", "text", "integer", "integer", "real"],
    "primary_keys": [1, 4],
    "foreign_keys": [[5, 1]],
}  # fmt: skip
QUESTIONS = [
    {"question_id": 7, "db_id": "shop", "question": "How many customers are there?",
     "evidence": "customers are rows", "SQL": "SELECT COUNT(*) FROM Customers", "difficulty": "simple"},
    {"question_id": 9, "db_id": "shop", "question": "Who lives in 'Bath'?",
     "evidence": None, "SQL": "SELECT Name FROM Customers WHERE town = 'Bath'", "difficulty": "moderate"},
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


class Files:
    """A benchmark folder `data/own`, to be changed by a test before it is loaded."""

    def __init__(self, data: Path, layout: str) -> None:
        self.data = data
        self.layout = layout
        self.folder = data / "own"
        bird = layout == "bird"
        self.settings: dict[str, Any] = {
            "name": "own", "layout": layout, "folder": "own", "revision": "1", "rule": "bird",
            "tables": "dev_tables.json" if bird else "tables.json",
            "databases": "dev_databases" if bird else "database",
        }  # fmt: skip
        self.database = self.folder / self.settings["databases"] / "shop" / "shop.sqlite"
        self.database.parent.mkdir(parents=True)
        with sqlite3.connect(self.database) as connection:
            for statement in SHOP:
                connection.execute(statement)
        connection.close()
        self.write(self.settings["tables"], [SHOP_ENTRY])

    def write(self, name: str, content: Any) -> Path:
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def describe(self, file: str, content: bytes) -> Path:
        path = self.database.parent / "database_description" / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    def load(self, **settings: Any) -> Benchmark:
        return load_benchmark(
            BenchmarkSettings(**{**self.settings, **settings}),
            data=self.data,
            home=self.data.parent / "home",
            conf=self.data.parent / "conf",
        )


@pytest.fixture
def make(tmp_path: Path) -> Callable[[str], Files]:
    return lambda layout: Files(tmp_path / "data", layout)


@pytest.fixture
def bird(make: Callable[[str], Files]) -> Files:
    files = make("bird")
    files.write("dev.json", QUESTIONS)
    return files


@pytest.fixture
def spider(make: Callable[[str], Files]) -> Files:
    files = make("spider")
    files.write(
        "dev.json",
        [
            {"db_id": "shop", "question": "How many orders?", "query": "SELECT count(*) FROM orders",
             "sql": {"select": [False, []]}},
            {"db_id": "shop", "question": "List all towns.", "query": "SELECT town FROM Customers"},
        ],
    )  # fmt: skip
    return files

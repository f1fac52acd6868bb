"""The demo benchmark's content: what it promises to the reader of its first score."""

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from tasks.benchmarks.benchmark import load_benchmark, question_fingerprint, sql_fingerprint
from tasks.benchmarks.demo import build_demo, read_descriptions
from tasks.settings.benchmark import BenchmarkSettings
from tasks.sql.parsing import tokens

CONF = Path(__file__).parents[3] / "conf"
SOURCES = CONF / "benchmarks" / "demo"
DATABASES = sorted(path.parent.name for path in SOURCES.glob("*/schema.sql"))


@dataclass(frozen=True)
class Item:
    """A question as the built files have it."""

    split: str
    id: int
    database: str
    question: str
    evidence: str
    sql: str
    difficulty: str | None


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_demo(tmp_path_factory.mktemp("demo") / "demo", sources=SOURCES)


@pytest.fixture(scope="module")
def items(demo: Path) -> list[Item]:
    return [
        Item(
            split,
            entry["question_id"],
            entry["db_id"],
            entry["question"],
            entry["evidence"],
            entry["SQL"],
            entry.get("difficulty"),
        )
        for split in ("dev", "train")
        for entry in json.loads((demo / f"{split}.json").read_text(encoding="utf-8"))
    ]


@pytest.fixture(scope="module")
def dev(items: list[Item]) -> list[Item]:
    return [item for item in items if item.split == "dev"]


def connect(demo: Path, database: str) -> sqlite3.Connection:
    return sqlite3.connect(demo / "dev_databases" / database / f"{database}.sqlite")


def tables(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]


def of(items: list[Item], database: str) -> Iterator[Item]:
    return (item for item in items if item.database == database)


def test_ids_count_through_the_databases_in_alphabetical_order(dev: list[Item]) -> None:
    assert [item.id for item in dev] == list(range(len(dev)))
    assert [item.database for item in dev] == sorted(item.database for item in dev)


@pytest.mark.parametrize("database", DATABASES)
def test_every_gold_answers_in_under_a_second_with_something(
    demo: Path, items: list[Item], database: str
) -> None:
    faults = []
    with closing(connect(demo, database)) as connection:
        for item in of(items, database):
            begun = time.process_time()
            rows = connection.execute(item.sql).fetchall()
            seconds = time.process_time() - begun
            if seconds > 1 or not any(value is not None for row in rows for value in row):
                faults.append((item.split, item.question, round(seconds, 2), len(rows)))
    assert faults == []


@pytest.mark.parametrize("database", DATABASES)
def test_no_gold_depends_on_the_order_in_which_sqlite_happens_to_read(
    demo: Path, items: list[Item], database: str
) -> None:
    faults = []
    with closing(connect(demo, database)) as connection:
        for item in of(items, database):
            ordered = sqlglot.parse_one(item.sql, read="sqlite").args.get("order")
            arrange: Callable[[list[tuple]], list] = list if ordered else lambda rows: sorted(map(repr, rows))
            results = []
            for reverse in (0, 1):
                connection.execute(f"PRAGMA reverse_unordered_selects = {reverse}")
                results.append(arrange(connection.execute(item.sql).fetchall()))
            if results[0] != results[1]:
                faults.append((item.split, item.question))
    assert faults == []


@pytest.mark.parametrize("database", DATABASES)
def test_no_limit_cuts_between_equals(demo: Path, items: list[Item], database: str) -> None:
    faults = []
    with closing(connect(demo, database)) as connection:
        for item in of(items, database):
            for select in sqlglot.parse_one(item.sql, read="sqlite").find_all(exp.Select):
                if select.args.get("limit") and ties_at_the_cut(connection, select):
                    faults.append((item.split, item.question))
    assert faults == []


def ties_at_the_cut(connection: sqlite3.Connection, select: exp.Select) -> bool:
    """Whether the last row that LIMIT keeps and the first that it drops are equal under ORDER BY."""
    kept = int(select.args["limit"].expression.name)
    named = {column.alias: column.this for column in select.expressions if isinstance(column, exp.Alias)}
    keys = [key.this for key in select.args["order"].expressions]
    keys = [named.get(key.name, key) if isinstance(key, exp.Column) else key for key in keys]
    whole = select.copy()
    whole.set("limit", None)
    whole.set("expressions", [key.copy() for key in keys])
    rows = connection.execute(whole.sql("sqlite")).fetchall()
    return len(rows) > kept and rows[kept - 1] == rows[kept]


@pytest.mark.parametrize("database", DATABASES)
def test_no_rounding_decides_between_halves(demo: Path, items: list[Item], database: str) -> None:
    """A value halfway between two roundings would fall either way, as a right query happens to add."""
    faults = []
    with closing(connect(demo, database)) as connection:
        for item in of(items, database):
            tree = sqlglot.parse_one(item.sql, read="sqlite")
            for rounding in list(tree.find_all(exp.Round)):
                decimals = rounding.args.get("decimals")
                scale = 10 ** (int(decimals.name) if decimals else 0)
                rounding.replace(
                    exp.Anonymous(this="exactly", expressions=[rounding.this, exp.Literal.number(scale)])
                )
            halves: list[float] = []
            connection.create_function(
                "exactly", 2, lambda value, scale, into=halves: into.append(value * scale)
            )
            connection.execute(tree.sql("sqlite")).fetchall()
            if any(abs(value % 1 - 0.5) < 1e-4 for value in halves):
                faults.append((item.split, item.question))
    assert faults == []


def test_no_question_and_no_gold_occurs_twice(items: list[Item]) -> None:
    questions = Counter(question_fingerprint(item.question + item.database) for item in items)
    golds = Counter(sql_fingerprint(item.sql + item.database) for item in items)
    assert [key for key, count in (questions + golds).items() if count > 1] == []


def test_nothing_of_dev_is_among_the_demonstrations(items: list[Item]) -> None:
    def prints(split: str) -> set[str]:
        mine = [item for item in items if item.split == split]
        return {question_fingerprint(item.question) for item in mine} | {
            sql_fingerprint(item.sql) for item in mine
        }

    assert prints("dev").isdisjoint(prints("train"))


@pytest.mark.parametrize("database", DATABASES)
def test_every_value_is_stored_as_its_column_declares(demo: Path, database: str) -> None:
    faults = []
    with closing(connect(demo, database)) as connection:
        for table in tables(connection):
            for _, name, declared, *_ in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
                found = connection.execute(f'SELECT DISTINCT typeof("{name}") FROM "{table}"').fetchall()
                if not {kind for (kind,) in found} <= {declared.lower(), "null"}:
                    faults.append((table, name, declared, found))
    assert faults == []


@pytest.mark.parametrize("database", DATABASES)
def test_no_part_of_a_gold_that_removes_rows_is_idle(demo: Path, items: list[Item], database: str) -> None:
    """Were EXCEPT or INTERSECT idle, a query without it would count as right."""
    faults = []
    with closing(connect(demo, database)) as connection:
        for item in of(items, database):
            tree = sqlglot.parse_one(item.sql, read="sqlite")
            if item.split == "dev" and isinstance(tree, exp.Except | exp.Intersect):
                left = {*connection.execute(tree.this.sql("sqlite"))}
                if left == {*connection.execute(item.sql)}:
                    faults.append(item.question)
    assert faults == []


def test_the_readme_says_how_many_questions_are_near_twins_of_demonstrations(items: list[Item]) -> None:
    def masked(item: Item) -> tuple[str, ...]:
        literals = ("STRING", "NUMBER")
        read = tokens(item.sql, "sqlite") or ()
        return item.database, *("?" if t.token_type.name in literals else t.text.lower() for t in read)

    train = Counter(masked(item) for item in items if item.split == "train")
    dev = sum(masked(item) in train for item in items if item.split == "dev")
    within_train = sum(count for count in train.values() if count > 1)
    text = " ".join((SOURCES / "README.md").read_text(encoding="utf-8").split())
    assert f"`dev` questions, {dev} have the gold SQL" in text
    assert f"`train` questions, {within_train} have" in text


@pytest.mark.parametrize("database", DATABASES)
def test_descriptions_name_real_columns_and_leave_a_few_out(demo: Path, database: str) -> None:
    folder = demo / "dev_databases" / database / "database_description"
    with closing(connect(demo, database)) as connection:
        every = {(table, column) for table in tables(connection) for column in columns(connection, table)}
    told = {
        (path.stem, row["original_column_name"])
        for path in folder.glob("*.csv")
        for row in read_descriptions(path)
        if row["column_description"]
    }
    assert told < every
    assert len(told) > 0.6 * len(every)


def test_the_loader_reads_it_in_birds_layout(demo: Path, tmp_path: Path, dev: list[Item]) -> None:
    settings = BenchmarkSettings(
        name="demo", layout="bird", folder=str(demo), train="train.json", revision="1", rule="bird"
    )
    benchmark = load_benchmark(settings, data=tmp_path, home=tmp_path, conf=CONF)
    assert [question.text for question in benchmark.questions] == [item.question for item in dev]
    assert benchmark.missing == {}
    assert len(benchmark.demonstrations) >= 230
    for database, schema in benchmark.schemas.items():
        with closing(connect(demo, database)) as connection:
            assert [table.name for table in schema.tables] == tables(connection)
            pairs = sum(
                len(connection.execute(f'PRAGMA foreign_key_list("{table}")').fetchall())
                for table in tables(connection)
            )
        assert len(schema.foreign_keys) == pairs  # BIRD's layout has no composite keys, only pairs of columns

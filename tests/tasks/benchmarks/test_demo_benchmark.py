"""The demo benchmark's content: what it promises to the reader of its first score."""

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

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


class Item(NamedTuple):
    """A question as the built files have it."""

    split: str
    id: int
    database: str
    question: str
    sql: str

    @property
    def tree(self) -> exp.Expression:
        return sqlglot.parse_one(self.sql, read="sqlite")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_demo(tmp_path_factory.mktemp("demo") / "demo", sources=SOURCES)


@pytest.fixture(scope="module")
def items(demo: Path) -> list[Item]:
    return [
        Item(split, *(entry[key] for key in ("question_id", "db_id", "question", "SQL")))
        for split in ("dev", "train")
        for entry in json.loads((demo / f"{split}.json").read_text(encoding="utf-8"))
    ]


@pytest.fixture(scope="module")
def dev(items: list[Item]) -> list[Item]:
    return [item for item in items if item.split == "dev"]


def connect(demo: Path, database: str) -> Any:
    return closing(sqlite3.connect(demo / "dev_databases" / database / f"{database}.sqlite"))


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def connection(demo: Path, database: str) -> Iterator[sqlite3.Connection]:
    with connect(demo, database) as opened:
        yield opened


@pytest.fixture
def of_database(items: list[Item], database: str) -> list[Item]:
    return [item for item in items if item.database == database]


def tables(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]


def test_ids_count_through_the_databases_in_alphabetical_order(dev: list[Item]) -> None:
    assert [item.id for item in dev] == list(range(len(dev)))
    assert [item.database for item in dev] == sorted(item.database for item in dev)


def test_every_gold_answers_in_under_a_second_with_something(
    connection: sqlite3.Connection, of_database: list[Item]
) -> None:
    for item in of_database:
        begun = time.process_time()
        rows = connection.execute(item.sql).fetchall()
        assert time.process_time() - begun <= 1, item
        assert any(value is not None for row in rows for value in row), item


def test_no_gold_depends_on_the_order_in_which_sqlite_happens_to_read(
    connection: sqlite3.Connection, of_database: list[Item]
) -> None:
    for item in of_database:
        results = []
        for reverse in (0, 1):
            connection.execute(f"PRAGMA reverse_unordered_selects = {reverse}")
            rows = connection.execute(item.sql).fetchall()
            results.append(rows if item.tree.args.get("order") else sorted(map(repr, rows)))
        assert results[0] == results[1], item


def test_no_limit_cuts_between_equals(connection: sqlite3.Connection, of_database: list[Item]) -> None:
    for item in of_database:
        for select in item.tree.find_all(exp.Select):
            assert not select.args.get("limit") or not ties_at_the_cut(connection, select), item


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


def test_no_rounding_decides_between_halves(connection: sqlite3.Connection, of_database: list[Item]) -> None:
    """A value halfway between two roundings would fall either way, as a right query happens to add."""
    exact: list[float] = []
    connection.create_function("exactly", 2, lambda value, scale: exact.append(value * scale))
    for item in of_database:
        tree = item.tree
        for rounding in list(tree.find_all(exp.Round)):
            decimals = rounding.args.get("decimals")
            scale = exp.Literal.number(10 ** (int(decimals.name) if decimals else 0))
            rounding.replace(exp.Anonymous(this="exactly", expressions=[rounding.this, scale]))
        exact.clear()
        connection.execute(tree.sql("sqlite")).fetchall()
        assert not [value for value in exact if abs(value % 1 - 0.5) < 1e-4], item


def prints(items: list[Item]) -> Counter[str]:
    questions = Counter(question_fingerprint(item.question) for item in items)
    return questions + Counter(sql_fingerprint(item.sql) for item in items)


def test_no_question_and_no_gold_occurs_twice(of_database: list[Item]) -> None:
    assert set(prints(of_database).values()) == {1}


def test_nothing_of_dev_is_among_the_demonstrations(items: list[Item], dev: list[Item]) -> None:
    assert not prints(dev) & prints([item for item in items if item.split == "train"])


def test_every_value_is_stored_as_its_column_declares(connection: sqlite3.Connection) -> None:
    for table in tables(connection):
        for _, name, declared, *_ in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
            found = connection.execute(f'SELECT DISTINCT typeof("{name}") FROM "{table}"').fetchall()
            assert {kind for (kind,) in found} <= {declared.lower(), "null"}, (table, name)


def test_no_except_or_intersect_of_a_gold_is_idle(
    connection: sqlite3.Connection, of_database: list[Item]
) -> None:
    """Were EXCEPT or INTERSECT idle, a query without it would count as right."""
    for item in of_database:
        tree = item.tree
        if item.split == "dev" and isinstance(tree, exp.Except | exp.Intersect):
            left = {*connection.execute(tree.this.sql("sqlite"))}
            assert left != {*connection.execute(item.sql)}, item


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


def test_descriptions_name_real_columns_and_leave_a_few_out(
    demo: Path, connection: sqlite3.Connection, database: str
) -> None:
    every = {
        (table, row[1])
        for table in tables(connection)
        for row in connection.execute(f'PRAGMA table_info("{table}")')
    }
    told = {
        (path.stem, row["original_column_name"])
        for path in (demo / "dev_databases" / database / "database_description").glob("*.csv")
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
        with connect(demo, database) as connection:
            names = tables(connection)
            keys = [connection.execute(f'PRAGMA foreign_key_list("{name}")').fetchall() for name in names]
        assert [table.name for table in schema.tables] == names
        # BIRD's layout has no composite keys, only pairs of columns
        assert len(schema.foreign_keys) == sum(map(len, keys))

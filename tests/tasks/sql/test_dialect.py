"""A dialect is a property of a database: no function assumes one."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.database.schema import Schema
from tasks.sql.same_query import same_query

ROOT = Path(__file__).parents[3]
OTHER_MEANINGS = {
    "tasks/backbone/batches/store.py",  # SQLAlchemy's name of a kind of store
    "tasks/backbone/cache/base.py",
    "tasks/backbone/cache/store.py",
    "tasks/backbone/replies/sql_text.py",  # marks of code fences in replies
    "tasks/results/retention.py",  # the stores of the working folder
}


def default_dialects(source: str) -> Iterator[int]:
    """Yield the lines of parameters named `dialect` that have a default."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            every = [*node.args.posonlyargs, *node.args.args]
            with_default = every[len(every) - len(node.args.defaults) :]
            keyword = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            with_default += [argument for argument, default in keyword if default is not None]
            yield from (argument.lineno for argument in with_default if argument.arg == "dialect")


def dialect_literals(source: str) -> Iterator[int]:
    """Yield the lines of literals that name SQLite's dialect."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value == "sqlite":
            yield node.lineno


def modules_with(word: str) -> Iterator[tuple[str, str]]:
    for top in ("flows", "tasks"):
        for path in sorted((ROOT / top).rglob("*.py")):
            if word in (source := path.read_text(encoding="utf-8")):
                yield path.relative_to(ROOT).as_posix(), source


def test_no_function_has_a_default_dialect() -> None:
    found = [(name, line) for name, source in modules_with("dialect") for line in default_dialects(source)]
    assert found == []


def test_no_module_outside_of_the_databases_names_a_dialect() -> None:
    found = [
        (name, line)
        for name, source in modules_with("sqlite")
        if not name.startswith("tasks/database/") and name not in OTHER_MEANINGS
        for line in dialect_literals(source)
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    ['def f(sql, dialect="x"): ...', "def f(sql, *, dialect=None): ...", "async def f(dialect=D): ..."],
)
def test_a_default_dialect_would_be_found(source: str) -> None:
    assert list(default_dialects(source)) == [1]
    assert list(dialect_literals('parse(sql, "sqlite")')) == [1]
    assert list(default_dialects("def f(sql, dialect, rows=1): ...")) == []


def test_the_dialect_decides_how_a_sql_is_read() -> None:
    assert same_query("SELECT 1 -- a", "SELECT 1 # b", "mysql")
    assert not same_query("SELECT 1 -- a", "SELECT 1 # b", "sqlite")
    assert Schema("d", (), dialect="postgres").dialect_name == "PostgreSQL"

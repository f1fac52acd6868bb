"""Engines are known to the seam alone, and a dialect is a property of a database: no other module assumes one."""

import ast
from pathlib import Path

from tasks.database.schema import Schema
from tasks.sql.same_query import same_query

ROOT = Path(__file__).parents[3]
NAMES = frozenset({"sqlite", "postgres", "postgresql", "mysql", "mariadb", "duckdb"})
ELSEWHERE = {
    "tasks/backbone/batches/store.py": "the batches, beside the replies",
    "tasks/backbone/cache": "the store of replies",
}
"""Where the word means something else than the engine of a benchmark's databases."""
MODULES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted((*ROOT.glob("tasks/**/*.py"), *ROOT.glob("flows/**/*.py")))
}


def test_no_module_outside_of_the_seam_names_an_engine() -> None:
    found = [
        f"{name}, line {node.lineno}: {node.value}"
        for name, tree in MODULES.items()
        if not name.startswith(("tasks/database/", *ELSEWHERE))
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in NAMES
    ]
    assert found == []


def test_no_function_has_a_default_dialect() -> None:
    found = []
    for name, tree in MODULES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                positional = [*node.args.posonlyargs, *node.args.args]
                arguments = positional[len(positional) - len(node.args.defaults) :]
                keywords = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                arguments += [argument for argument, default in keywords if default is not None]
                found += [f"{name}, line {each.lineno}" for each in arguments if each.arg == "dialect"]
    assert found == []


def test_the_dialect_decides_how_a_sql_is_read() -> None:
    assert same_query("SELECT 1 -- a", "SELECT 1 # b", "mysql")
    assert not same_query("SELECT 1 -- a", "SELECT 1 # b", "sqlite")
    assert Schema("d", (), dialect="postgres").dialect_name == "PostgreSQL"

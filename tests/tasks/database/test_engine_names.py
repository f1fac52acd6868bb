"""Engines are known to the seam alone: no other module names one in code."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
NAMES = frozenset({"sqlite", "postgres", "postgresql", "mysql", "mariadb", "duckdb"})
ELSEWHERE = {
    "tasks/backbone/offline/prompt.py": "the dialect's notes in prompts, read by the stand-in for a model",
    "tasks/backbone/replies/sql_text.py": "the languages of fenced blocks",
    "tasks/backbone/batches/store.py": "the batches, beside the replies",
    "tasks/backbone/cache": "the store of replies",
    "tasks/settings/home.py": "the store of replies",
    "tasks/results": "MLflow's store and the warehouse",
    "flows/runtime/process.py": "the library of the warehouse, as a module that is imported or not",
}
"""Where the word means something else than the engine of a benchmark's databases."""


def test_no_module_outside_of_the_seam_names_an_engine() -> None:
    found = []
    for path in sorted((*ROOT.glob("tasks/**/*.py"), *ROOT.glob("flows/**/*.py"))):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(("tasks/database/", *ELSEWHERE)):
            continue
        texts = (
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant)
        )
        found += [f"{name}, line {text.lineno}: {text.value}" for text in texts if text.value in NAMES]
    assert found == []

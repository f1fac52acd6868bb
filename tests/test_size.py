"""Size is a feature: flows/ and tasks/ stay within a budget of lines for each folder, and of modules.

Lower a budget with every change that takes lines out. New functionality is an extension unless the mission needs it
(CONTRIBUTING.md).
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUFFIXES = (".py", ".sql", ".jinja")
BUDGETS = {
    "flows/api": 886,
    "flows/cli": 4_675,
    "flows/evaluate": 7_202,
    "flows/matrix": 1_195,
    "flows/pipelines": 970,
    "flows/prefect": 2_536,
    "flows/runtime": 1_172,
    "tasks/backbone": 8_363,
    "tasks/benchmarks": 3_960,
    "tasks/core": 1_626,
    "tasks/database": 5_833,
    "tasks/documents": 1_374,
    "tasks/pages": 2_877,
    "tasks/results": 6_676,
    "tasks/retrieval": 1_566,
    "tasks/scoring": 5_387,
    "tasks/settings": 2_174,
    "tasks/sql": 2_473,
    "tasks/stages": 3_349,
}
"""Lines of Python, SQL and templates by folder, docstrings and blank lines included."""
MAX_MODULES = 315
MAX_LINES = 500
"""Lines of one module: as many as its subject needs, up to these."""
SLACK = 0.02
"""Share by which a budget may exceed the lines; a budget above that is to be lowered."""


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.suffix in SUFFIXES and "__pycache__" not in path.parts]


def folders() -> dict[str, int]:
    return {
        folder.relative_to(ROOT).as_posix(): sum(map(lines_of, files(folder)))
        for top in ("flows", "tasks")
        for folder in sorted((ROOT / top).iterdir())
        if (folder / "__init__.py").exists()
    }


def test_every_folder_has_a_budget() -> None:
    assert set(folders()) == set(BUDGETS)


@pytest.mark.parametrize("folder", BUDGETS)
def test_a_folder_stays_within_its_budget_and_the_budget_close_to_it(folder: str) -> None:
    lines = folders()[folder]
    assert lines <= BUDGETS[folder], f"{folder} has {lines} lines: take some out, or make it an extension"
    assert BUDGETS[folder] <= lines * (1 + SLACK) + 20, f"lower the budget of {folder} to {lines}"


def test_the_number_of_modules_stays_within_its_budget() -> None:
    modules = [path for top in ("flows", "tasks") for path in files(ROOT / top) if path.suffix == ".py"]
    assert len(modules) <= MAX_MODULES
    assert len(modules) * (1 + SLACK) >= MAX_MODULES, f"lower MAX_MODULES to {len(modules)}"


def test_no_module_is_longer_than_its_subject_needs() -> None:
    modules = (path for top in ("flows", "tasks") for path in files(ROOT / top))
    assert {path.name: lines_of(path) for path in modules if lines_of(path) > MAX_LINES} == {}

"""Who may import whom, read from the source, and when, in real processes."""

import ast
import importlib.util
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from flows.cli.command_table import COMMANDS

ROOT = Path(__file__).parents[1]

TOPS = ("tasks", "flows")
HEAVY = ("prefect", "mlflow", "sentence_transformers", "torch", "pandas", "matplotlib", "duckdb")
FLOWS = (
    "flows.evaluate.deployment.",
    "flows.evaluate.shard_flow.",
    "flows.matrix.nightly.",
)
"""The modules that define deployed flows."""
DECORATORS = (
    "prefect.flow",
    "prefect.Flow",
    "prefect.tags",
    "prefect.runtime.",
    "prefect.states.",
    "prefect.logging.",
)
STATE = ("prefect.client.schemas.objects.State", "prefect.utilities.annotations.quote")
ONLY_IN = {
    "prefect": ("flows.prefect.", *FLOWS),
    "mlflow": ("tasks.results.",),
    "sentence_transformers": ("tasks.retrieval.encoder_files.",),
}


class Import(NamedTuple):
    """One import: what imports, what is imported, as a dotted name, perhaps of a name within a module, and where."""

    module: str
    imported: str
    line: int

    @property
    def root(self) -> str:
        return self.imported.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.module}, line {self.line}, imports {self.imported}"


def imports_of(source: str, module: str, *, package: bool = False) -> list[Import]:
    """Return the imports of a module's source, also those for type checking and those inside functions."""
    inside = module if package else module.rpartition(".")[0]
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [Import(module, alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), inside)
            found += [Import(module, f"{base}.{alias.name}", node.lineno) for alias in node.names]
    return found


@cache
def modules() -> dict[str, Path]:
    """Every module of the project by its dotted name."""
    found = {}
    for path in (path for top in TOPS for path in sorted((ROOT / top).rglob("*.py"))):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def all_imports() -> tuple[Import, ...]:
    return tuple(
        each
        for name, path in modules().items()
        for each in imports_of(path.read_text(encoding="utf-8"), name, package=path.name == "__init__.py")
    )


def module_of(dotted: str) -> str:
    """The module that an imported name is, or is in."""
    while dotted not in modules():
        dotted = dotted.rpartition(".")[0]
    return dotted


def folder_of(module: str) -> str:
    """The folder of a module; a package's `__init__.py` is in the package."""
    return module if modules()[module].name == "__init__.py" else module.rpartition(".")[0]


def own_imports() -> list[tuple[Import, str, str]]:
    """Each import of a module of the project, with the folders that import and are imported."""
    return [
        (each, folder_of(each.module), folder_of(module_of(each.imported)))
        for each in all_imports()
        if each.root in TOPS
    ]


@pytest.mark.parametrize("top", TOPS)
def test_every_module_is_in_a_folder(top: str) -> None:
    assert [path.name for path in (ROOT / top).glob("*.py")] == ["__init__.py"]


def test_folders_import_each_other_in_no_circle() -> None:
    """So there is an order in which each folder imports from those before it only."""
    graph: dict[str, set[str]] = {}
    for _, *folders in own_imports():
        importing, imported = (".".join(folder.split(".")[:2]) for folder in folders)
        if importing != imported:
            graph.setdefault(importing, set()).add(imported)
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


def test_modules_of_a_folder_import_each_other_in_no_circle() -> None:
    graph: dict[str, set[str]] = {}
    for each, *_ in own_imports():
        if (name := module_of(each.imported)) != each.module:
            graph.setdefault(each.module, set()).add(name)
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the circle


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_is_imported_in_its_own_place_only(library: str) -> None:
    users = [each for each in all_imports() if each.root == library]
    assert users
    elsewhere = [str(each) for each in users if not f"{each.module}.".startswith(ONLY_IN[library])]
    assert elsewhere == []


def test_flows_take_from_prefect_what_defines_a_flow_and_its_state_only() -> None:
    """Everything else of Prefect is behind flows/prefect: docs/prefect.md."""
    others = [
        str(each)
        for each in all_imports()
        if each.root == "prefect"
        and not each.module.startswith("flows.prefect.")
        and not each.imported.startswith((*DECORATORS, *STATE))
    ]
    assert others == []


def test_texts_reach_a_terminal_through_one_function_which_spells_control_characters_out() -> None:
    """Rich's `escape` alone lets a model's or a database's escape codes through: `tasks.documents.terminal.literal`."""
    escaping = {each.module for each in all_imports() if each.imported == "rich.markup.escape"}
    assert escaping == {"tasks.documents.terminal"}


def names_of_tasks() -> list[str]:
    return [name for name in modules() if name.startswith("tasks.")]


def names_of_the_command_line() -> list[str]:
    """What the command line imports at its start."""
    commands = {entry.implementation.partition(".")[0] for entry in COMMANDS.values() if entry.implementation}
    return ["flows.cli.program", *(f"flows.cli.commands.{name}" for name in sorted(commands))]


IN_WORKERS = ("execution.judge_job", "execution.rules", "execution.run_times", "metrics.soft_f1")
"""Modules of scoring that run inside the workers: a worker that was killed has to be replaced within a moment."""
STARTS = {
    "tasks": (names_of_tasks(), HEAVY),
    "command line": (names_of_the_command_line(), HEAVY),
    "workers": (
        [f"tasks.scoring.{name}" for name in IN_WORKERS],
        (*HEAVY, "sqlglot", "pydantic", "numpy", "asyncio"),
    ),
}


@pytest.mark.parametrize(("names", "heavy"), STARTS.values(), ids=STARTS)
def test_heavy_libraries_are_imported_when_they_are_needed(names: list[str], heavy: tuple[str, ...]) -> None:
    program = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        f"    early = [heavy for heavy in {heavy!r} if heavy in sys.modules]\n"
        "    assert not early, f'{name} imports {early}'\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, *names], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["evaluate", "--help"], ["list"]], ids=" ".join)
def test_asking_for_help_loads_nothing_heavy(arguments: list[str]) -> None:
    program = (
        "import sys, atexit\n"
        f"atexit.register(lambda: print('LOADED', *(name for name in {HEAVY!r} if name in sys.modules)))\n"
        "import flows.cli.program\n"
        "sys.exit(flows.cli.program.run(sys.argv[1:]))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert "evaluate" in ran.stdout or "demo" in ran.stdout
    assert ran.stdout.splitlines()[-1] == "LOADED"

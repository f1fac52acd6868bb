"""Who may import whom, and when: read from the source, and checked once in a real process."""

import ast
import subprocess
import sys
from collections.abc import Iterable
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
    """One import.

    Attributes:
        module: what imports.
        imported: what is imported, as a dotted name; perhaps a name within a module.
        line: where.
        when: "start" when the module is imported, "call" when a function runs, "never" for type checking only.
    """

    module: str
    imported: str
    line: int
    when: str

    @property
    def root(self) -> str:
        return self.imported.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.module}, line {self.line}, imports {self.imported}"


class Imports(ast.NodeVisitor):
    """Collects the imports of one module."""

    def __init__(self, module: str, package: str) -> None:
        self.module = module
        self.package = package
        self.when = "start"
        self.found: list[Import] = []

    def visit_Import(self, node: ast.Import) -> None:
        self.found += [Import(self.module, alias.name, node.lineno, self.when) for alias in node.names]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = node.module or ""
        if node.level:
            above = self.package.split(".")[: len(self.package.split(".")) - node.level + 1]
            base = ".".join([*above, *([base] if base else [])])
        self.found += [
            Import(self.module, f"{base}.{alias.name}", node.lineno, self.when) for alias in node.names
        ]

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            self._visit("never", node.body)
            self._visit(self.when, node.orelse)
        else:
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        self._visit("never" if self.when == "never" else "call", ast.iter_child_nodes(node))

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - the visitor's own spelling
    visit_Lambda = visit_FunctionDef  # noqa: N815

    def _visit(self, when: str, nodes: Iterable[ast.AST]) -> None:
        before, self.when = self.when, when
        for node in nodes:
            self.visit(node)
        self.when = before


def imports_of(source: str, module: str, *, package: bool = False) -> list[Import]:
    """Return the imports of a module's source."""
    visitor = Imports(module, module if package else module.rpartition(".")[0])
    visitor.visit(ast.parse(source))
    return visitor.found


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


def test_heavy_libraries_are_imported_when_they_are_needed() -> None:
    early = [
        str(each)
        for each in all_imports()
        if each.root in HEAVY and each.when == "start" and not each.module.startswith("flows.")
    ]
    assert early == []


def test_what_the_command_line_imports_at_its_start_imports_nothing_heavy() -> None:
    reached: set[str] = set()
    waiting = [
        "flows.cli.program",
        *(
            f"flows.cli.commands.{entry.implementation.partition('.')[0]}"
            for entry in COMMANDS.values()
            if entry.implementation
        ),
    ]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in modules():
            continue
        reached.add(name)
        parents = name.split(".")
        waiting += [".".join(parents[:end]) for end in range(1, len(parents))]
        for each in all_imports():
            if each.module == name and each.when == "start":
                waiting += [each.imported, each.imported.rpartition(".")[0]]
    early = [
        str(each)
        for each in all_imports()
        if each.module in reached and each.when == "start" and each.root in HEAVY
    ]
    assert early == []
    assert {"flows.cli.commands.evaluate", "flows.cli.options", "tasks.core.errors"} <= reached


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


def test_the_collector_tells_start_from_call_and_sees_through_every_spelling() -> None:
    source = """
import prefect.settings
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import mlflow
else:
    import torch
try:
    from pandas import DataFrame
except ImportError:
    pass
class A:
    import duckdb
    def f(self):
        import matplotlib.pyplot
        async def g():
            from ..errors import CrosscheckError
from . import b
"""
    found = {each.imported: each.when for each in imports_of(source, "tasks.a.m")}
    assert found == {
        "prefect.settings": "start",
        "typing.TYPE_CHECKING": "start",
        "mlflow": "never",
        "torch": "start",
        "pandas.DataFrame": "start",
        "duckdb": "start",
        "matplotlib.pyplot": "call",
        "tasks.errors.CrosscheckError": "call",
        "tasks.a.b": "start",
    }

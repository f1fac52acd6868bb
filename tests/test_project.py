"""What a developer joins with: the workflow, the site, the hooks, the choice of tests."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.changed import tests_of as chosen
from tests.support.command_line import ROOT


@pytest.mark.slow
def test_the_site_builds_from_the_pages_and_has_the_python_interface(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    pages = {str(page.parent.relative_to(tmp_path)) for page in tmp_path.rglob("index.html")}
    assert pages >= {".", "operating", "contributing", "reference", "numbers"}
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} <= pages
    reference = (tmp_path / "reference" / "index.html").read_text(encoding="utf-8")
    assert "Crosscheck.evaluate" in reference


@pytest.mark.slow
def test_no_page_of_the_site_loads_anything_from_another_host(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "--site-dir", str(tmp_path)], cwd=ROOT, check=True
    )
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="https?:|<link[^>]*\shref="https?:', text)


@pytest.mark.parametrize("number", [1, 2])
def test_the_workflow_runs_the_commands_of_the_readme(number: int) -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    steps = {step.get("name"): step.get("run") for step in workflow["jobs"]["readme"]["steps"]}
    script = steps[("first command", "second command")[number - 1]]
    extract = re.fullmatch(r'bash -euo pipefail -c "\$\((.*)\)"', script)
    assert extract
    printed = subprocess.run(extract[1], shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = re.search(rf"<!-- command {number} -->\n```\n(.*?)\n```\n<!-- end -->", readme, re.DOTALL)
    assert block
    assert printed.stdout.strip() == block[1]


def test_the_hooks_name_programs_of_the_tests_environment() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0][
        "hooks"
    ]
    assert [hook["entry"].split()[0] for hook in hooks] == ["ruff", "ruff", "mypy", "python"]


def test_the_tests_of_a_changed_file_are_those_of_its_folder() -> None:
    assert chosen(["tasks/backbone/cache/store.py", "docs/speed.md"])[-1] == "tests/test_layering.py"
    assert chosen(["tests/tasks/sql/test_same_query.py"]) == ["tests/tasks/sql/test_same_query.py"]
    assert chosen(["README.md", "conf/backbones/offline.yaml"]) == []
    assert all(
        (ROOT / each).exists() for each in chosen(["flows/no_such_folder/file.py", "flows/cli/program.py"])
    )


def test_a_file_of_the_root_of_a_package_does_not_choose_every_test() -> None:
    assert chosen(["tasks/__init__.py"]) == ["tests/test_layering.py"]


def test_docstrings_name_attributes_that_there_are() -> None:
    missing = []
    for path in (path for folder in ("flows", "tasks") for path in sorted((ROOT / folder).rglob("*.py"))):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                missing += [
                    f"{path.relative_to(ROOT)}: {node.name}.{name}" for name in described_in_vain(node)
                ]
    assert missing == []


def described_in_vain(node: ast.ClassDef) -> list[str]:
    """Return what the section `Attributes:` of a class without bases describes and nothing in it defines or sets."""
    described = (ast.get_docstring(node) or "").partition("Attributes:")[2]
    names = {
        name
        for line in re.findall(r"^ {4}(\w[\w, ]*): ", described, re.MULTILINE)
        for name in line.split(", ")
    }
    defined = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    for part in ast.walk(node):
        if isinstance(part, ast.Name | ast.Attribute) and isinstance(part.ctx, ast.Store):
            defined.add(part.id if isinstance(part, ast.Name) else part.attr)
    return [] if node.bases else sorted(names - defined)


def test_a_field_that_is_gone_is_found_in_a_docstring() -> None:
    source = (
        '"""A class.\n\nAttributes:\n    kept: a field.\n    gone: none.\n    set: one.\n"""\nkept: int\n'
    )
    method = "def begin(self) -> None:\n    self.set = 1\n"
    body = "".join(f"    {line}\n" for line in (source + method).splitlines())
    (node,) = ast.parse(f"class Example:\n{body}").body
    assert isinstance(node, ast.ClassDef)
    assert described_in_vain(node) == ["gone"]

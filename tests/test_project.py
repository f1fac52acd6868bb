"""What a developer joins with: the workflow, the site, the hooks, the choice of tests, the tests' own ground rules."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import yaml

from tests.changed import tests_of as chosen
from tests.support.command_line import ROOT


@pytest.mark.slow
def test_the_site_builds_from_the_pages_has_the_python_interface_and_loads_nothing_from_elsewhere(
    tmp_path: Path,
) -> None:
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


pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).with_name("conftest.py").read_text()


def run_with(pytester: pytest.Pytester, test: str) -> pytest.RunResult:
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\nmarkers =\n    shared_data: needs data")
    pytester.makepyfile(test)
    with mock.patch.dict(os.environ):  # the hook of conftest.py changes it
        return pytester.runpytest_inprocess("-q", "-rs", "-p", "no:cacheprovider")


def test_no_test_sees_the_developers_keys_or_servers(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "DEEPSEEK_API_KEY", "MLFLOW_TRACKING_URI", "PREFECT_API_URL"):
        monkeypatch.setenv(name, "http://real")
    monkeypatch.setenv("CROSSCHECK_HOME", "/home/real")
    run_with(
        pytester,
        """
        import os
        def test_environment():
            assert "http://real" not in os.environ.values()
            assert "crosscheck-tests-" in os.environ["CROSSCHECK_HOME"]
    """,
    ).assert_outcomes(passed=1)


def test_absent_shared_data_skips_and_says_where_to_get_it_or_fails_where_it_is_required(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_DATA", "/nowhere")
    monkeypatch.delenv("CROSSCHECK_REQUIRE_SHARED", raising=False)
    result = run_with(pytester, "def test_it(shared_data): pass")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["*no benchmark data at /nowhere*bird-bench*"])
    monkeypatch.setenv("CROSSCHECK_REQUIRE_SHARED", "1")
    run_with(pytester, "def test_it(shared_data): pass").assert_outcomes(errors=1)


def test_the_name_of_a_class_means_one_thing() -> None:
    """Options and commands are named after what they select; a table is one of a schema, or one of a document."""
    named_alike = {"Table", "Column"}
    modules: dict[str, list[str]] = {}
    for path in (*ROOT.glob("flows/**/*.py"), *ROOT.glob("tasks/**/*.py")):
        if not path.is_relative_to(ROOT / "flows" / "cli"):
            for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
                modules.setdefault(name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: paths for name, paths in modules.items() if len(paths) > 1}.keys() == named_alike

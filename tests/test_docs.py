"""README, docs/ and docstrings: their links lead somewhere, and their snippets do what the text says."""

import doctest
import importlib
import re
import sqlite3
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import yaml

from tasks.benchmarks.answer_keys import Official, read_key_file
from tasks.core.records import Question
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.load import load_backbone_settings, load_benchmark_settings
from tests.support.command_line import ROOT
from tests.support.in_process import run
from tests.support.postgres import execute, new_database

DOCS = tuple(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "deployments/README.md", *DOCS)
RUN_ELSEWHERE = {
    ("CONTRIBUTING.md", None): "tests/test_contributing.py",
    ("README.md", "python"): "the same calls are in docs/python.md",
    ("docs/agents.md", "python"): "tests/flows/evaluate/test_agent_examples.py",
    ("docs/agents.md", "json"): "tests/flows/evaluate/test_agent_examples.py",
    ("docs/python.md", "python"): "tests/flows/api/test_api.py",
    ("docs/warehouse.md", "sql"): "tests/flows/cli/test_query_command.py",
}


def blocks(page: str, language: str | None = None) -> list[tuple[str, str]]:
    """Return the language and text of the code blocks of a page; with a language, only those in it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [each for each in found if language in (None, each[0])]


def links() -> Iterator[tuple[str, str]]:
    """Yield every relative link of the pages."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if not target.startswith(("http:", "https:")):
                yield page, target


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as they are derived by GitHub."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(("page", "target"), sorted(set(links())))
def test_a_link_leads_to_a_file_and_a_heading_that_are_there(page: str, target: str) -> None:
    name, _, anchor = target.partition("#")
    file = (ROOT / page).parent / name if name else ROOT / page
    assert file.exists()
    assert not anchor or anchor in anchors(file)


def test_a_script_that_a_page_names_is_there() -> None:
    named = {
        name
        for page in PAGES
        for name in re.findall(r"tests[./]benchmarks[./](\w+)", (ROOT / page).read_text(encoding="utf-8"))
    }
    assert named <= {path.stem for path in (ROOT / "tests" / "benchmarks").glob("*.py")}


def test_every_page_is_linked_from_the_readme() -> None:
    linked = {target.partition("#")[0] for page, target in links() if page == "README.md"}
    assert set(DOCS) <= linked


def test_every_snippet_that_is_no_command_is_run_by_a_test() -> None:
    here = {("docs/model.md", "yaml"), ("docs/benchmark.md", "yaml"), ("docs/benchmark.md", "csv")}
    here |= {("docs/numbers.md", "json"), ("docs/numbers.md", "yaml"), ("docs/database.md", "sql")}
    here |= {("deployments/README.md", "yaml"), ("docs/cost.md", "yaml")}
    found = {(page, language) for page in PAGES for language, _ in blocks(page) if language}
    elsewhere = {each for each in found if each in RUN_ELSEWHERE or (each[0], None) in RUN_ELSEWHERE}
    assert found - here - elsewhere == set()


def test_the_settings_and_prices_of_a_model_are_valid(tmp_path: Path) -> None:
    (_, text), (_, token) = blocks("docs/model.md", "yaml")
    (tmp_path / "token.yaml").write_text(f"model: m\n{token}", encoding="utf-8")
    command = load_backbone_settings(tmp_path, str(tmp_path / "token.yaml")).api_key_command
    assert command == ["gcloud", "auth", "print-access-token"]
    (tmp_path / "my-model.yaml").write_text(text, encoding="utf-8")
    settings = load_backbone_settings(tmp_path, str(tmp_path / "my-model.yaml"))
    assert (settings.name, settings.concurrency) == ("my-model", 64)
    assert settings.prices is not None and settings.prices.output == 1.6
    ((_, prices),) = blocks("docs/cost.md", "yaml")
    (tmp_path / "priced.yaml").write_text(f"model: m\n{prices}", encoding="utf-8")
    priced = load_backbone_settings(tmp_path, str(tmp_path / "priced.yaml")).prices
    assert priced is not None and priced.flex is not None and priced.valid_until is not None


def test_the_settings_of_a_benchmark_are_valid_and_so_are_their_alternatives(tmp_path: Path) -> None:
    ((_, text),) = blocks("docs/benchmark.md", "yaml")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    written = load_benchmark_settings(tmp_path, str(tmp_path / "mine.yaml"))
    assert isinstance(written, BenchmarkSettings) and written.revision == "2026-11"
    for key, other in re.findall(r"^(\w+):.*# (?:or several:|or) (\[.*\]|\w+)$", text, re.MULTILINE):
        changed = load_benchmark_settings(tmp_path, str(tmp_path / "mine.yaml"), [f"benchmark.{key}={other}"])
        assert changed != written, key
        assert yaml.safe_load(other) in (getattr(changed, key), list(getattr(changed, key))), key


def test_the_spreadsheet_becomes_a_benchmark_whose_gold_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    ((_, text),) = blocks("docs/benchmark.md", "csv")
    Path("questions.csv").write_text(text, encoding="utf-8")
    with sqlite3.connect("shop.sqlite") as shop:
        shop.execute("CREATE TABLE customer (name TEXT, city TEXT)")
        shop.execute("INSERT INTO customer VALUES ('Ann', 'Lyon')")
    commands = blocks("docs/benchmark.md", "")[0][1].splitlines()
    for line in commands[:2]:
        ran = run(*line.split()[1:])
        assert ran.code == 0, ran.err
    assert "evaluate" in commands[2]


def test_the_corrected_golds_can_be_read(tmp_path: Path) -> None:
    ((_, text),) = blocks("docs/numbers.md", "json")
    (tmp_path / "corrections.json").write_text(text.replace("SELECT ...", "SELECT 1"), encoding="utf-8")
    questions = {name: Question(name, "?", "db") for name in ("717", "720", "723")}
    key = read_key_file("mine", tmp_path / "corrections.json", Official("mine", questions, {}))
    assert not key.problems and len(key.entries) == 3


def test_the_commands_of_the_workflow_have_the_options_that_it_gives() -> None:
    ((_, text),) = blocks("docs/numbers.md", "yaml")
    steps = yaml.safe_load(text)["jobs"]["compare"]["steps"]
    commands = [step["run"].split() for step in steps if step.get("run", "").startswith("crosscheck ")]
    assert [command[1] for command in commands] == ["evaluate", "compare"]
    for command in commands:
        known = run(command[1], "--help").out
        assert all(word in known for word in command[2:] if word.startswith("--"))


def test_the_statements_that_make_a_reader_make_one() -> None:
    ((_, text),) = blocks("docs/database.md", "sql")
    postgresql = text.partition("-- MySQL")[0].partition("-- PostgreSQL")[2]
    role = f"crosscheck_reader_{uuid.uuid4().hex[:16]}"
    with new_database() as url:
        execute(url, "CREATE TABLE customer (name TEXT)")
        try:
            for statement in filter(str.strip, postgresql.replace("'...'", "'x'").split(";")):
                execute(url, re.sub(r"\breader\b", role, statement))
            reader = url.replace("postgres@", f"{role}:x@")
            assert execute(reader, "SELECT * FROM customer") == []
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                execute(reader, "INSERT INTO customer VALUES ('x')")
        finally:
            execute(url, f"DROP OWNED BY {role}")
            execute(url, f"DROP ROLE {role}")


EXAMPLES = [
    path.relative_to(ROOT)
    for folder in ("tasks", "flows")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "api" not in path.parts and ">>> " in path.read_text(encoding="utf-8")
]
"""Modules with examples; those of the Python interface are run on real runs by tests/flows/api/test_api.py."""


@pytest.mark.parametrize("path", EXAMPLES, ids=str)
def test_the_examples_of_docstrings_print_what_they_say(path: Path) -> None:
    module = importlib.import_module(".".join(path.with_suffix("").parts))
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0

"""The promises of docs/promises.md, and what SECURITY.md says, held against the code."""

import re
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.promises.table import PROMISES
from tests.support.command_line import ROOT
from tests.support.offline_run import offline_run

UNSAFE = re.compile(
    r"\bpickle\.loads?\(|\byaml\.(?:unsafe_load|full_load|load)\(|yaml\.(?:Full|Unsafe)?Loader\b|(?<![\w.])(?:eval|exec)\(|"
    r"\.from_string\(|allow_pickle=True|\bmarshal\.|shell=True|os\.system\(|torch\.load\("
)
KNOWN = {
    "tasks/database/sandbox/worker.py": 3,  # what its own parent process wrote
    "tasks/database/sandbox/process.py": 1,  # what its own worker process wrote
    "tasks/benchmarks/demo.py": 1,  # with one of the two safe loaders
}


def test_every_row_of_the_page_is_read() -> None:
    page = (ROOT / "docs/promises.md").read_text(encoding="utf-8")
    assert page.count("\n| ") == len(PROMISES) + 1, "a row of the table has another form"


def test_every_promise_has_its_test() -> None:
    for name, promise in PROMISES.items():
        text = (ROOT / "tests" / promise.test).read_text(encoding="utf-8")
        each = "pytest.mark.promise(name)) for name in ENGINES"
        assert f'pytest.mark.promise("{name}")' in text or (f'"{name}": on_' in text and each in text)


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [
        *project["dependencies"],
        *extras["embedding"],
        *extras["finetune"],
        *extras["mysql"],
        *extras["postgresql"],
    ]
    names = {re.split(r"[<>=!\[]", each)[0] for each in wanted}
    table = (ROOT / "SECURITY.md").read_text(encoding="utf-8").partition("## Dependencies")[2]
    cells = re.findall(r"^\| ([\w\[\], -]+) \|", table, re.MULTILINE)[1:]
    assert {re.sub(r"\[.*", "", name.strip()) for cell in cells for name in cell.split(", ")} == names


def test_nothing_that_is_read_is_executed() -> None:
    found: dict[str, int] = {}
    for path in (*(ROOT / "tasks").rglob("*.py"), *(ROOT / "flows").rglob("*.py")):
        if count := len(UNSAFE.findall(path.read_text(encoding="utf-8"))):
            found[path.relative_to(ROOT).as_posix()] = count
    assert {name: count for name, count in found.items() if count != KNOWN.get(name)} == {}


async def test_an_evaluation_with_the_defaults_connects_to_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def refuse(_self: socket.socket, address: Any) -> None:
        asked.append(address)
        raise OSError("no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **_: refuse(socket.socket(), args))
    run = await offline_run("few-shot", home=tmp_path, limit=2)
    assert all(outcome.sql for outcome in run.outcomes.values())
    assert asked == []

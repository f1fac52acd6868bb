"""`crosscheck cache`, on the replies that other commands left."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.command_line import ROOT, CommandLine, Ran
from tests.support.fake_openai import FakeOpenAI
from tests.support.postgres import postgres_database
from tests.support.terminal import run_in_terminal

__all__ = ["postgres_database"]

Run = Callable[..., Ran]


@pytest.fixture
def bought(run_here: Run, backbone_file: str, model: FakeOpenAI, built_demo: Path) -> int:
    """Ask a question, so that replies are in the cache; return how many."""
    database = next((built_demo / "benchmarks/demo/dev_databases/city_library").glob("*.sqlite"))
    ran = run_here(
        "answer", "How many members are there?", "--database", str(database), "--backbone", backbone_file
    )
    assert ran.code == 0, ran.err
    return len(model.requests)


def test_bought_replies_are_listed_exported_and_removed_only_by_who_says_so(
    run_here: Run, bought: int, tmp_path: Path
) -> None:
    listed = run_here("cache", "list", "--limit", "2")
    assert listed.code == 0
    head, model, *latest = listed.out.splitlines()
    assert f"{bought} replies" in head
    assert model.startswith(f"  local-model: {bought} replies, $")
    assert len(latest) == 2

    as_json = run_here("cache", "list", "--json").json
    assert as_json["cache"]["entries"] == bought
    assert as_json["latest"][0]["model"] == "local-model"
    assert run_here("cache", "list", "--model", "another", "--json").json["latest"] == []

    file = tmp_path / "replies.jsonl"
    exported = run_here("cache", "export", str(file))
    assert exported.out == f"{bought} replies written to {file}.\n"
    as_json = run_here("cache", "export", str(file), "--json").json
    assert as_json == {"file": str(file), "replies": bought}
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == bought
    assert all(line["text"] and line["request"] for line in lines)

    for nothing in (("--older-than", "1d"), ("--model", "another")):
        assert run_here("cache", "prune", *nothing).out == "0 replies removed.\n"
    assert run_here("cache", "prune").code == 2
    assert run_here("cache", "prune", "--older-than", "soon").code == 2
    assert run_here("cache", "list", "--json").json["cache"]["entries"] == bought
    assert run_here("cache", "prune", "--model", "another", "--json").json == {"removed": 0}
    pruned = run_here("cache", "prune", "--model", "local-model", "--yes", "--json")
    assert (pruned.code, pruned.json) == (0, {"removed": bought})
    assert run_here("cache", "list", "--json").json["cache"]["entries"] == 0


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "left"), [("n\n", True), ("\n", True), ("y\n", False)])
def test_pruning_asks_first_and_says_how_much_it_is_about(
    run_here: Run, bought: int, tmp_path: Path, answer: str, left: bool
) -> None:
    crosscheck = CommandLine(tmp_path / "home")
    code, screen = run_in_terminal(
        crosscheck.command("cache", "prune", "--all"), ROOT, crosscheck.all_of_environment, 120, answer
    )
    assert code == 0
    assert f"Remove {bought} replies?" in screen.text
    assert ("Nothing was removed." in screen.text) is left
    assert (run_here("cache", "list", "--json").json["cache"]["entries"] == bought) is left


@pytest.mark.slow
def test_replies_that_a_team_shares_are_kept_listed_and_removed_in_postgresql(
    run_here: Run, request: pytest.FixtureRequest, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_REPLIES", postgres_database.replace("postgres@", "postgres:s3cret@"))
    bought = request.getfixturevalue("bought")
    listed = run_here("cache", "list")
    assert listed.code == 0, listed.err
    assert listed.out.startswith("postgresql://postgres:***@127.0.0.1:5432/crosscheck_test_")
    assert f"{bought} replies" in listed.out
    assert "s3cret" not in listed.out + run_here("cache", "list", "--json").out
    assert run_here("cache", "prune", "--all", "--yes").out == f"{bought} replies removed.\n"

    monkeypatch.setenv("CROSSCHECK_REPLIES", f"{postgres_database}_absent")
    refused = run_here("cache", "list")
    assert refused.code == 2
    assert "createdb" in refused.err
    assert "Traceback" not in refused.err


def test_damaged_replies_are_named_beside_the_others_and_removed(
    run_here: Run, bought: int, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "home" / "replies.sqlite")) as connection, connection:
        (key,) = connection.execute("SELECT min(key) FROM reply").fetchone()
        connection.execute("UPDATE reply SET request = x'00' WHERE key = ?", [key])
    listed = run_here("cache", "list")
    assert listed.code == 2
    assert len(listed.out.splitlines()) == 2 + bought - 1
    assert f"is damaged in 1 of its entries: {key} (" in listed.err
    assert "`crosscheck cache prune --damaged`" in listed.err
    as_json = run_here("cache", "list", "--json")
    assert as_json.code == 2
    assert (len(as_json.json["latest"]), [each["key"] for each in as_json.json["damaged"]]) == (
        bought - 1,
        [key],
    )

    assert run_here("cache", "prune", "--damaged", "--model", "another").out == "0 replies removed.\n"
    pruned = run_here("cache", "prune", "--damaged", "--yes")
    assert (pruned.code, pruned.out) == (0, "1 replies removed.\n"), pruned.err
    listed = run_here("cache", "list", "--json")
    assert (listed.code, listed.json["damaged"], listed.json["cache"]["entries"]) == (0, [], bought - 1)


def test_a_damaged_reply_can_be_removed_with_the_others(run_here: Run, bought: int, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "home" / "replies.sqlite")) as connection, connection:
        connection.execute("UPDATE reply SET request = x'00' WHERE key = (SELECT min(key) FROM reply)")
    pruned = run_here("cache", "prune", "--all", "--yes")
    assert (pruned.code, pruned.out) == (0, f"{bought} replies removed.\n"), pruned.err


def test_an_export_that_cannot_be_written_is_one_message(run_here: Run) -> None:
    ran = run_here("cache", "export", "/nowhere/replies.jsonl")
    assert ran.code == 2
    assert "/nowhere/replies.jsonl" in ran.err
    assert ran.out == ""

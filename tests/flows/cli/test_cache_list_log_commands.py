"""`crosscheck cache`, `list` and `log`, on what other commands left."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tasks.settings.home import Home
from tasks.tracking.mlflow.package import Completion
from tasks.tracking.mlflow.store import Store
from tasks.tracking.mlflow.tracker import Tracker
from tests.support.command_line import ROOT, CommandLine, Ran
from tests.support.fake_openai import FakeOpenAI
from tests.support.postgres import postgres_database
from tests.support.terminal import run_in_terminal
from tests.tasks.tracking.samples import make_report, make_run

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


def test_a_damaged_reply_can_be_removed_with_the_others(run_here: Run, bought: int, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "home" / "replies.sqlite")) as connection, connection:
        connection.execute("UPDATE reply SET request = x'00' WHERE key = (SELECT min(key) FROM reply)")
    assert "damaged" in run_here("cache", "list").err
    pruned = run_here("cache", "prune", "--all", "--yes")
    assert (pruned.code, pruned.out) == (0, f"{bought} replies removed.\n"), pruned.err


def test_an_export_that_cannot_be_written_is_one_message(run_here: Run) -> None:
    ran = run_here("cache", "export", "/nowhere/replies.jsonl")
    assert ran.code == 2
    assert "/nowhere/replies.jsonl" in ran.err
    assert ran.out == ""


def test_the_list_names_every_file_with_its_description(run_here: Run) -> None:
    everything = run_here("list", "--json").json
    for kind in ("benchmarks", "backbones", "pipelines"):
        assert set(everything[kind]) == {path.stem for path in (ROOT / "conf" / kind).glob("*.yaml")}
        assert all(everything[kind].values()), f"one of the {kind} has no description"
    shown = run_here("list", "backbones").out.splitlines()
    assert shown[0] == "backbones"
    assert any(line.startswith("  offline ") for line in shown)
    assert run_here("list", "models").code == 2


def test_a_broken_file_does_not_hide_the_others_from_the_list(
    run_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("benchmarks", "backbones", "pipelines"):
        (tmp_path / "conf" / kind).mkdir(parents=True)
    shutil.copy(ROOT / "conf/backbones/offline.yaml", tmp_path / "conf/backbones")
    (tmp_path / "conf/backbones/mine.yaml").write_text("a: [", encoding="utf-8")
    monkeypatch.setenv("CROSSCHECK_CONF", str(tmp_path / "conf"))
    listed = run_here("list")
    assert listed.code == 0
    assert "mine     cannot be read:" in listed.out
    assert "  offline  " in listed.out
    (tmp_path / "conf/backbones/mine.yaml").unlink()
    (tmp_path / "conf/backbones/offline.yaml").unlink()
    assert run_here("list").out == "benchmarks\nbackbones\npipelines\n"


def test_a_run_that_mlflow_missed_is_logged_later_by_the_command_that_the_summary_names(
    run_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    tracker = Tracker(Home(tmp_path / "home"), Store("http://127.0.0.1:9"))
    tracker.start(make_run())
    problem = tracker.finish(make_report(5), Completion(seconds=1.0)).problem
    monkeypatch.undo()
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    command = problem.split('"')[1].split()
    assert command[:2] == ["crosscheck", "log"]

    logged = run_here(*command[1:], "--json")
    assert logged.code == 0, logged.err
    run_id = logged.json["mlflow_run_id"]
    run = MlflowClient(f"sqlite:///{tmp_path / 'home' / 'mlflow.db'}").get_run(run_id)
    assert run.info.status == "FINISHED"
    again = run_here(*command[1:])
    assert again.code == 2
    assert "is not among the runs that are still to be logged" in again.err


def test_a_bug_is_a_sentence_and_its_traceback_is_in_the_log(
    run_here: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Path:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("tasks.settings.home.find_conf", broken)
    ran = run_here("list")
    assert ran.code == 70
    assert "internal error (ZeroDivisionError: a bug)" in ran.err
    assert "Traceback" not in ran.err
    log = tmp_path / "home" / "crosscheck.log"
    assert str(log) in ran.err
    assert "ZeroDivisionError: a bug" in log.read_text(encoding="utf-8")

    monkeypatch.setenv("CROSSCHECK_HOME", os.devnull)
    nowhere = run_here("list")
    assert nowhere.code == 70
    assert "Traceback" in nowhere.err, "without a working folder the details have no other place"

"""`crosscheck status` and `crosscheck clean` on a folder with an old run and a young one."""

import io
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from flows.evaluate import working_folder as storage
from flows.evaluate.working_folder import clean, open_folder
from flows.runtime.folder_use import FolderUse
from tasks.core.errors import DataError
from tasks.results.build_record import record_of
from tasks.results.retention import FolderStore
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.choices import Keep
from tasks.settings.home import Home
from tests.flows.cli.old_folder import OLD, ROWS, YOUNG, make_folder, run_id
from tests.support.disk import Disk, disk
from tests.support.in_process import run

__all__ = ["disk"]

pytestmark = pytest.mark.slow

KEEP = ("--keep", "30d", "--keep-runs", "1")
"""The young run is the latest of its combination, so that the old one is not kept."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("made") / "home")
    make_folder(home)
    return home


@pytest.fixture
def home(home: Home, made: Home) -> Home:
    shutil.copytree(made.path, home.path)
    return home


class Answering(io.StringIO):
    """A terminal at which somebody types."""

    def isatty(self) -> bool:
        return True


def stores(found: Mapping[str, Any]) -> dict[str, Any]:
    return {each["name"]: each for each in found["stores"]}


def status() -> dict[str, Any]:
    return stores(run("status", "--json").json)


def traces(home: Home) -> set[str]:
    """Return the ids of the runs that have traces."""
    client = MlflowClient(home.mlflow_uri)
    (experiment,) = [each for each in client.search_experiments() if each.name.startswith("crosscheck/")]
    found = client.search_traces(locations=[experiment.experiment_id])
    runs = {each.info.trace_metadata["mlflow.sourceRun"] for each in found}
    return {client.get_run(each).data.tags["crosscheck_run_id"] for each in runs}


def test_status_counts_every_store_and_what_would_be_freed(home: Home) -> None:
    found = status()
    counts = {name: store["counts"] for name, store in found.items()}
    assert counts["MLflow"].pop("traces") > 2
    assert (
        counts
        | {
            "runs": {"runs": 2, "questions": 24},
            "stage results": {"results": 2},
            "verdicts": {"verdicts": 2},
            "artifacts": {"runs": 2},
            "value indexes": {"databases": 2},
        }
        == counts
    )
    assert (found["replies"]["cost_usd"], found["replies"]["removable"]) == (0.25, {"replies": 0})
    # both runs are kept, and what was last used 100 days ago goes
    assert found["stage results"]["removable"] == {"results": 1}
    assert found["artifacts"]["removable"] == {"runs": 0}
    total = sum(store["bytes"] for store in found.values())
    assert total == sum(each.stat().st_size for each in home.path.rglob("*") if each.is_file())
    shown = run("status")
    assert shown.code == 0 and "1 reply, paid $0.2500" in shown.out


def test_a_dry_run_and_an_unconfirmed_one_remove_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(home.path.rglob("*"))
    found = stores(run("clean", *KEEP, "--dry-run", "--json").json)
    assert found["stage results"]["removable"] == {"results": 1}
    assert found["artifacts"]["frees_bytes"] > 1000
    run("clean", *KEEP).assert_refused("confirm with --yes")
    monkeypatch.setattr("sys.stdin", Answering("n\n"))
    asked = run("clean", *KEEP)
    assert "Remove this? [y/N]" in asked.out + asked.err
    assert sorted(path for path in home.path.rglob("*") if path.suffix != ".lock") == before
    assert run("clean", "--keep", "tomorrow").code == 2


def test_what_only_the_old_run_used_goes_and_scores_and_replies_stay(home: Home) -> None:
    ran = run("clean", *KEEP, "--yes", "--json")
    assert ran.code == 0, ran.err
    assert ran.json["kept_runs"] == [run_id(YOUNG)]
    assert ran.json["shrunk"]
    assert ran.json["after_bytes"] < ran.json["before_bytes"]
    found = status()
    assert {name: found[name]["counts"] for name in ("stage results", "verdicts", "artifacts")} == {
        "stage results": {"results": 1},
        "verdicts": {"verdicts": 1},
        "artifacts": {"runs": 1},
    }
    assert found["runs"]["counts"] == {"runs": 2, "questions": 24}
    assert found["replies"]["counts"] == {"replies": 1}
    assert traces(home) == {run_id(YOUNG)}
    assert len(MlflowClient(home.mlflow_uri).search_runs(["1"])) == 2
    assert [each.name for each in home.values.iterdir()] == [f"{YOUNG}.sqlite"]
    assert not freelist(home.stage_results)
    again = run("clean", *KEEP, "--yes", "--json")
    assert again.json["frees_bytes"] == 0


def test_a_tag_keeps_an_old_run_and_selects_it(home: Home) -> None:
    warehouse = Warehouse(home.warehouse)
    pinned = warehouse.read_run(run_id(OLD)).model_copy(update={"tags": {"pinned": "yes", "team": "search"}})
    warehouse.finish(record_of(pinned, ROWS))
    (tagged,) = run("runs", "--tag", "team=search", "--json").json["runs"]
    assert tagged["run_id"] == run_id(OLD)
    assert run("runs", "--tag", "team=other", "--json").json["total"] == 0
    assert "with the tag team=other" in run("runs", "--tag", "team=other").out
    found = run("clean", *KEEP, "--dry-run", "--json").json
    assert found["kept_runs"] == [run_id(YOUNG), run_id(OLD)]
    assert stores(found)["artifacts"]["removable"] == {"runs": 0}


def freelist(file: Path) -> int:
    with closing(sqlite3.connect(file)) as connection:
        return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def test_rows_go_when_asked_for_and_the_file_shrinks(home: Home) -> None:
    before = home.warehouse.stat().st_ino
    assert run("clean", *KEEP, "--rows", "--yes").code == 0
    warehouse = Warehouse(home.warehouse)
    assert [each.total for each in warehouse.runs()] == [12, 12]
    assert len(warehouse.read_run(run_id(YOUNG)).rows) == 12
    with pytest.raises(DataError, match="were removed by"):
        warehouse.read_run(run_id(OLD))
    assert home.warehouse.stat().st_ino != before
    assert not list(home.path.glob("*.rewriting*"))
    assert run("show", run_id(OLD)).code == 2
    young, old = run("runs", "--json").json["runs"]
    assert young["rows_removed"] is None
    assert old["started"].endswith("Z") and old["rows_removed"].endswith("Z")


@pytest.mark.usefixtures("home")
def test_replies_go_only_when_asked_for_with_what_they_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Answering("n\n"))
    (model,) = status()["replies"]["parts"]
    assert model["counts"] == {"replies": 1} and model["bytes"] > 0 and model["cost_usd"] == 0.25
    assert f"  {model['name']}" in run("status").out
    wrong = run("clean", *KEEP, "--replies", f"{model['name']}x", "--yes")
    wrong.assert_refused(f'Did you mean "{model["name"]}"')
    asked = run("clean", *KEEP, "--replies", model["name"])
    assert "The replies have cost $0.2500" in asked.out + asked.err
    assert run("clean", *KEEP, "--yes").code == 0
    assert status()["replies"]["counts"] == {"replies": 1}
    assert run("clean", *KEEP, "--replies", "all", "--yes").code == 0
    assert status()["replies"]["counts"] == {"replies": 0}


def test_files_in_use_are_not_rewritten_but_old_rows_go(home: Home) -> None:
    rows = ("clean", *KEEP, "--rows")
    idle = run(*rows, "--dry-run", "--json").json
    use = FolderUse(home)
    inode = home.warehouse.stat().st_ino
    promised = run(*rows, "--dry-run", "--json").json
    assert promised["frees_bytes"] < idle["frees_bytes"]
    assert "One does now" in run(*rows, "--dry-run").out
    ran = run(*rows, "--yes", "--json")
    assert (ran.code, ran.json["shrunk"]) == (0, False)
    freed = ran.json["before_bytes"] - ran.json["after_bytes"]
    assert abs(promised["frees_bytes"] - freed) < 50_000
    assert home.warehouse.stat().st_ino == inode
    use.end()
    assert run(*rows, "--yes", "--json").json["shrunk"]
    assert home.warehouse.stat().st_ino != inode


@pytest.mark.parametrize("steps", (1, 7, 13, 17))
def test_a_cleaning_that_was_killed_is_continued(
    home: Home, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    keep, attempted, done = Keep(age="30d", runs=1, rows=False), storage._problems_in, count()

    def die_after(store: FolderStore, work: Any) -> Any:
        if next(done) == steps:
            raise KeyboardInterrupt
        return attempted(store, work)

    monkeypatch.setattr(storage, "_problems_in", die_after)
    with pytest.raises(KeyboardInterrupt):
        clean(open_folder(home, keep))
    monkeypatch.undo()
    assert clean(open_folder(home, keep)).problems == ()
    assert sum(each.frees for each in open_folder(home, keep).holdings()) == 0
    assert len(Warehouse(home.warehouse).read_run(run_id(YOUNG)).rows) == 12


def test_a_store_that_cannot_be_read_is_named_and_the_others_are_counted(home: Home) -> None:
    home.stage_results.write_bytes(b"no database" * 100)
    found = status()
    assert found["stage results"]["note"].startswith("It cannot be read: ")
    assert found["verdicts"]["counts"] == {"verdicts": 2}


@pytest.mark.parametrize(
    ("content", "problem"), [(b"no database" * 100, "file is not"), (b"", "no such table")]
)
def test_a_damaged_database_of_prefect_is_one_sentence_and_the_other_stores_are_cleaned(
    home: Home, content: bytes, problem: str
) -> None:
    records = home.prefect / "prefect.db"
    records.parent.mkdir()
    records.write_bytes(content)
    cleaned = run("clean", *KEEP, "--yes")
    said = cleaned.out.replace("\n", " ")
    assert cleaned.code == 3 and f"Prefect in {records}: {problem}" in said and "sqlalche.me" not in said
    assert said.count("next cleaning") == 1 and traces(home) == {run_id(YOUNG)}
    assert "Traceback" in (home.path / "crosscheck.log").read_text(encoding="utf-8"), "not on the terminal"


def test_a_cleaning_on_a_full_disk_ends_in_sentences_and_leaves_no_draft(
    made: Home, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(disk.folder / "home")
    shutil.copytree(made.path, home.path)
    monkeypatch.setenv("CROSSCHECK_HOME", str(home.path))
    with disk.full():
        cleaned = run("clean", *KEEP, "--rows", "--yes", "--json")
    assert cleaned.code == 3 and cleaned.json["problems"], cleaned.err
    assert all("\n" not in problem and "[SQL" not in problem for problem in cleaned.json["problems"])
    assert list(home.path.glob("*.rewriting*")) == []
    assert run("clean", *KEEP, "--rows", "--yes").code == 0
    assert len(Warehouse(home.warehouse).read_run(run_id(YOUNG)).rows) == 12


def test_without_older_runs_nothing_is_said_of_them(tmp_path: Path) -> None:
    shown = run("status", "--home", str(tmp_path / "none"))
    assert "traces and artifacts of 0 runs\n" in shown.out and "older run" not in shown.out

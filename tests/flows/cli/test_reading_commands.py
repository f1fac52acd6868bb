"""Commands that only read load no server, make no folder where a name is misspelled, and say what there is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.backbone.cache.store import SqliteReplyCache
from tasks.results.night import write
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home
from tests.support.command_line import ROOT
from tests.support.in_process import run
from tests.tasks.results.comparison_samples import two_runs
from tests.tasks.results.night_samples import a_night

READ = (
    ("runs",), ("leaderboard",), ("nights", "show"), ("nights", "show", "latest"), ("nights", "baseline"), ("status",),
    ("query", "FROM runs"), ("show", "latest"), ("compare", "latest~1", "latest"), ("tables", "latest"),
)  # fmt: skip
READS_SETTINGS = ("status", "query", "tables")
"""Those that need the models of settings: they read a benchmark, or evaluations that run."""
MAKE_ONE = '"crosscheck evaluate"'
NOTHING_THERE = {
    ("runs",): (0, MAKE_ONE),
    ("leaderboard",): (0, MAKE_ONE),
    ("nights", "show"): (0, "No nightly run has finished"),
    ("nights", "baseline"): (0, "No baseline is pinned"),
    ("status",): (0, "0 B"),
    ("clean", "--dry-run"): (0, ""),
    ("clean", "--yes"): (2, ""),
    ("query", "FROM runs"): (2, MAKE_ONE),
    ("export", "exported"): (2, MAKE_ONE),
    ("show", "latest"): (2, MAKE_ONE),
    ("compare", "latest~1", "latest"): (2, MAKE_ONE),
    ("tables", "latest"): (2, MAKE_ONE),
}
"""Exit code and words of commands where there is no working folder."""


@pytest.mark.parametrize("command", NOTHING_THERE, ids=" ".join)
def test_a_command_that_only_reads_makes_no_working_folder_and_says_what_makes_a_run(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(*command, "--home", str(tmp_path / "typo" / "home"))
    code, said = NOTHING_THERE[command]
    assert ran.code == code and said in ran.out + ran.err, ran.out + ran.err
    assert not list(tmp_path.iterdir())


def test_a_command_that_only_reads_loads_neither_prefect_nor_mlflow_nor_settings(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "warehouse.duckdb")
    write(a_night(warehouse, two_runs(3, 20, 100), name="2026-11-21T01:30Z"), Home(tmp_path))
    program = (
        "import sys, flows.cli.program\n"
        "code = flows.cli.program.run(sys.argv[2:])\n"
        "loaded = [name for name in sys.argv[1].split() if name in sys.modules]\n"
        "sys.exit(f'exit code {code}, loaded {loaded}' if code or loaded else 0)\n"
    )
    environment = {**os.environ, "CROSSCHECK_HOME": str(tmp_path)}
    failures = {}
    for command in READ:
        heavy = "prefect mlflow torch" + " tasks.settings.kinds" * (command[0] not in READS_SETTINGS)
        ran = subprocess.run(
            [sys.executable, "-c", program, heavy, *command],
            cwd=ROOT, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        if ran.returncode:
            failures[command] = ran.stderr
    assert failures == {}


@pytest.mark.parametrize("ended", [True, False])
def test_batches_under_way_are_named_until_their_end_was_seen(home: Home, ended: bool) -> None:
    with SqliteReplyCache(home.replies) as cache:
        batches = cache.batches("http://provider/v1")
        batches.begin("token", ["a", "b"])
        batches.submitted("token", "batch_0")
        if ended:
            batches.ended("token", "batch_0", 90.0)
    ran = run("status")
    assert ran.code == 0, ran.err
    assert ("1 batch under way (2 requests), the first since" in ran.out) is not ended


@pytest.mark.parametrize("command", [("status",), ("clean", "--dry-run")], ids=" ".join)
def test_a_file_in_the_place_of_a_folder_is_named_with_what_to_do(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "prefect").write_text("", encoding="utf-8")
    ran = run(*command, "--home", str(tmp_path))
    assert ran.code == 2
    assert f"Not a directory: {tmp_path}/prefect" in ran.err and "move it away" in ran.err
    assert "disk has space" not in ran.err

"""Commands that only read make no folder where a name is misspelled, and say what there is."""

from pathlib import Path

import pytest

from tasks.results.warehouse.runs import Warehouse
from tests.support.in_process import run
from tests.tasks.results.comparison_samples import two_runs
from tests.tasks.results.night_samples import a_night

NOTHING_THERE = {
    ("runs",): 0,
    ("leaderboard",): 0,
    ("nights", "show"): 0,
    ("nights", "baseline"): 0,
    ("status",): 0,
    ("clean",): 0,
    ("query", "FROM runs"): 2,
    ("export", "exported"): 2,
    ("show", "latest"): 2,
    ("compare", "latest~1", "latest"): 2,
    ("tables", "latest"): 2,
}


@pytest.mark.parametrize("command", NOTHING_THERE, ids=" ".join)
def test_a_command_that_only_reads_makes_no_working_folder(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run(*command, "--home", str(tmp_path / "typo" / "home"))
    assert ran.code == NOTHING_THERE[command], ran.out + ran.err
    assert not list(tmp_path.iterdir())


def test_runs_of_a_benchmark_that_no_run_has_are_refused_with_the_names_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path))
    a_night(Warehouse(tmp_path / "warehouse.duckdb"), two_runs(3, 20, 100), name="2026-11-21T01:30Z")
    known = run("runs", "--json").json["runs"][0]["benchmark"]
    ran = run("runs", "--benchmark", f"{known}x")
    assert ran.code == 2 and f'Did you mean "{known}"' in ran.err

"""Values that the shell completes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from flows.cli.program import crosscheck
from tasks.results.build_record import record_of
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.home import Home, find_conf
from tasks.settings.load import available
from tests.support.command_line import ROOT
from tests.tasks.results.samples import make_rows, make_run


def completed(*words: str) -> list[tuple[str, str]]:
    """Return what stands for the last word, with its type."""
    shell = ShellComplete(crosscheck, {}, "crosscheck", "_CROSSCHECK_COMPLETE")
    return [(item.value, item.type) for item in shell.get_completions(list(words[:-1]), words[-1])]


def values(*words: str) -> list[str]:
    return [value for value, _ in completed(*words)]


@pytest.mark.parametrize("kind", ["benchmark", "backbone", "pipeline"])
def test_names_are_completed_and_files_where_none_fits_or_the_configuration_is_broken(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert values("evaluate", f"--{kind}", "") == sorted(available(find_conf(), kind))
    assert completed("evaluate", f"--{kind}", "my-") == [("my-", "file")]
    monkeypatch.setenv("CROSSCHECK_CONF", str(tmp_path / "nowhere"))
    assert completed("evaluate", f"--{kind}", "r") == [("r", "file")]


def test_commands_options_folders_and_files_are_completed() -> None:
    assert values("ev") == ["evaluate"]
    assert "--pipeline" in values("evaluate", "--p")
    assert completed("evaluate", "--data", "d") == [("d", "dir")]
    assert completed("score", "--predictions", "p") == [("p", "file")]


def test_runs_are_completed(home: Home) -> None:
    assert values("show", "l") == ["latest"]
    Warehouse(home.warehouse).finish(record_of(make_run(), make_rows(2)))
    assert values("show", "") == ["latest", make_run().run_id]
    shell = ShellComplete(crosscheck, {}, "crosscheck", "_CROSSCHECK_COMPLETE")
    (_, run) = shell.get_completions(["show"], "")
    assert run.help == "50.00 % (1/2)  weak-1 | rsl-sql on bird-dev"
    assert values("compare", "latest", make_run().run_id[:4]) == [make_run().run_id]


def test_a_shell_gets_the_script_that_completes() -> None:
    environment = {**os.environ, "_CROSSCHECK_COMPLETE": "zsh_source"}
    command = [sys.executable, "-m", "crosscheck"]
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("#compdef crosscheck") and "_CROSSCHECK_COMPLETE=zsh_complete" in ran.stdout

"""What lies behind a score, as `crosscheck evaluate` shows it."""

import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

pytestmark = pytest.mark.slow


def test_an_evaluation_says_what_lies_behind_its_score_and_keeps_its_verdicts(
    crosscheck: CommandLine, built_demo: Path
) -> None:
    shutil.copytree(built_demo, crosscheck.home, dirs_exist_ok=True)
    ran = crosscheck.run("evaluate", "--pipeline", "rsl-sql+dac", "--limit", "8", "--details", "--json")
    assert ran.code == 0, ran.err
    found = ran.json
    wrong = found["total"] - found["correct"]
    assert wrong > 0, "the floor gets some of these wrong"
    assert sum(found["metrics"]["errors"].values()) >= wrong
    assert found["metrics"]["selection"]["candidates"] == ["1_preliminary_sql", "2_augmented_sql"]
    assert found["metrics"]["selection"]["oracle"]["correct"] >= found["stages"][2]["correct"]
    assert found["metrics"]["strict_recall_or_correct"]["stage"] == "2_augmented_sql"
    assert set(found["metrics"]["links_resolved"]) == {"forward", "backward", "both"}
    assert "By DAC's kinds of error" in ran.err
    with sqlite3.connect(crosscheck.home / "verdicts.sqlite") as verdicts:
        (kept,) = verdicts.execute("SELECT count(*) FROM entry").fetchone()
    assert kept >= 8


def test_a_run_says_that_the_working_folder_is_large_or_why_its_size_is_unknown(
    demo: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ("evaluate", "--limit", "1", "--pipeline", "zero-shot")
    large = demo.run(*few, "--set", "tracking.folder_limit_gb=0.000001")
    assert large.code == 0
    assert 'more than 1e-06 GB (tracking.folder_limit_gb): "crosscheck clean --dry-run" shows' in large.out
    deep = demo.home / "another program's"
    deep.mkdir()
    monkeypatch.chdir(deep)
    for _ in range(20):  # a path that is too long for the system cannot be looked into, even by root
        Path("d" * 250).mkdir()
        os.chdir("d" * 250)
    monkeypatch.chdir(demo.home)
    unknown = demo.run(*few)
    assert unknown.code == 0, unknown.err
    assert "The size of the working folder is unknown: " in unknown.out

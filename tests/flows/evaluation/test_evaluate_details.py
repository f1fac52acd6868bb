"""What lies behind a score, as `crosscheck evaluate` shows it."""

import shutil
import sqlite3
from pathlib import Path

from tests.support.command_line import CommandLine


def test_an_evaluation_says_what_lies_behind_its_score_and_keeps_its_verdicts(
    crosscheck: CommandLine, built_demo: Path
) -> None:
    shutil.copytree(built_demo, crosscheck.home, dirs_exist_ok=True)
    ran = crosscheck.run("evaluate", "--pipeline", "rsl-sql+dac", "--limit", "8", "--details", "--json")
    assert ran.code == 0, ran.err
    found = ran.json
    wrong = found["ex"]["total"] - found["ex"]["correct"]
    assert wrong > 0, "the floor gets some of these wrong"
    assert sum(found["errors"].values()) >= wrong
    assert found["selection"]["candidates"] == ["1_preliminary_sql", "2_augmented_sql"]
    assert found["selection"]["oracle"]["correct"] >= found["stages"][2]["correct"]
    assert found["strict_recall_or_correct"]["stage"] == "2_augmented_sql"
    assert set(found["links_resolved"]) == {"forward", "backward", "both"}
    assert "DAC: skeleton" in ran.err
    with sqlite3.connect(crosscheck.home / "verdicts.sqlite") as verdicts:
        (kept,) = verdicts.execute("SELECT count(*) FROM verdict").fetchone()
    assert kept >= 8

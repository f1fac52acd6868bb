"""A working folder with scored runs of the demo, for commands that read runs."""

import json
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from tests.support.in_process import run

OTHER = "SELECT 'another answer'"
"""The SQL of every wrong answer."""


def scored_home(
    folder: Path, built_demo: Path, wrong: Mapping[str, Collection[str]], *words: str, limit: int = 10
) -> Path:
    """Return a working folder in `folder` with a run per name, right but for the questions that are given as wrong.

    Args:
        folder: an empty folder, which also gets the files of predictions.
        built_demo: a working folder with the demo.
        wrong: ids of the questions with another answer, by the run's name.
        words: further options of `crosscheck score`.
        limit: number of questions.
    """
    home = folder / "home"
    shutil.copytree(built_demo, home)
    questions = json.loads((home / "benchmarks" / "demo" / "dev.json").read_text(encoding="utf-8"))
    golds = {str(each["question_id"]): each["SQL"] for each in questions}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROSSCHECK_HOME", str(home))
        for name, ids in wrong.items():
            file = folder / f"{name}.jsonl"
            sqls = {key: f"{sql};" for key, sql in golds.items()} | dict.fromkeys(
                ids, OTHER
            )  # no copies of the gold
            file.write_text(
                "\n".join(json.dumps({"question_id": key, "sql": sql}) for key, sql in sqls.items())
            )
            given = ("--predictions", str(file), "--limit", str(limit), "--name", name)
            ran = run("score", *given, *words)
            assert ran.code == 0, ran.err
    return home

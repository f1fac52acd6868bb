"""A working folder with scored runs of the demo, for commands that read runs."""

import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from tests.support.demo import demo_golds, write_predictions
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
    golds = {key: f"{sql};" for key, sql in demo_golds(home).items()}  # no copies of the gold
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CROSSCHECK_HOME", str(home))
        for name, ids in wrong.items():
            file = write_predictions(folder / f"{name}.jsonl", golds | dict.fromkeys(ids, OTHER))
            ran = run("score", "--predictions", file, "--limit", str(limit), "--name", name, *words)
            assert ran.code == 0, ran.err
    return home

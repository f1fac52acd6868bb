"""Tables of runs and nightly runs on a narrow terminal: what names a run and its verdict stays whole."""

import datetime
import io
from pathlib import Path
from typing import Any, TextIO

import pytest

from tasks.documents.model import Document, Table
from tasks.documents.terminal import print_document
from tasks.pages.comparison import comparison_document
from tasks.pages.lists import runs_table
from tasks.pages.night import night_document, nights_table
from tasks.results.compare import compare
from tasks.results.run_record import RunHeader
from tasks.results.warehouse.runs import Warehouse
from tests.tasks.results.comparison_samples import score, stored, two_runs
from tests.tasks.results.night_samples import a_night


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal of 80 columns without colours."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    return Terminal()


def a_run(benchmark: str, **changes: object) -> RunHeader:
    started = datetime.datetime(2026, 11, 21, 2, tzinfo=datetime.UTC)
    plain: dict[str, Any] = {
        "run_id": "20261121-020000-3f9a1c", "revision": "1", "backbone": "deepseek-chat", "pipeline": "rsl-sql",
        "rule": "bird", "status": "complete", "started": started, "correct": 1030, "total": 1534,
    }  # fmt: skip
    return RunHeader(benchmark=benchmark, **plain | changes)


def print_list(terminal: TextIO, *runs: RunHeader) -> None:
    print_document(Document("", (runs_table(runs, 20),)), terminal)


def test_a_narrow_terminal_shows_what_a_run_evaluated(terminal: Terminal) -> None:
    print_list(terminal, a_run("bird-dev"), a_run("spider-test"))
    text = terminal.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    for word in ("20261121-020000-3f9a1c", "bird-dev", "spider-test", "deepseek-chat", "rsl-sql", "67.14 %"):
        assert word in text
    assert "a wider terminal also shows" in text


def test_a_narrow_terminal_shows_the_score_of_a_run_with_long_names(terminal: Terminal) -> None:
    names = {
        "backbone": "an-organisation/a-model-with-a-long-name-8b", "pipeline": "a-pipeline-of-many-stages"
    }  # fmt: skip
    print_list(terminal, a_run("bird-mini-dev-with-hints", status="partial", **names))
    text = terminal.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    (row,) = [line for line in text.splitlines() if "20261121-020000-3f9a1c" in line]
    assert row.startswith("20261121-020000-3f9a1c 67.14 % 1,030 of 1,534")
    assert "partial" in text


def test_a_narrow_terminal_shows_the_scores_of_both_runs_after_each_stage(terminal: Terminal) -> None:
    stages = ("1_preliminary_sql", "2_augmented_sql", "3_binary_selection", "4_self_correction")
    a, b = (
        stored((score(number, number < right, letter, stages) for number in range(100)), letter)
        for right, letter in ((60, "a"), (43, "b"))
    )
    print_document(comparison_document(compare(a, b)), terminal)
    _, _, text = terminal.getvalue().partition("By stage")
    by_stage, _, _ = text.partition("p adj.:")
    assert max(map(len, by_stage.splitlines())) <= 80
    assert "60 of 100" in by_stage and "43 of 100" in by_stage


def test_a_title_that_is_wider_than_its_table_is_one_line(terminal: Terminal) -> None:
    table = Table("Cost of a question beside the scores", ("", "A"), (("EX", "50.00"),))
    print_document(Document("", (table,)), terminal)
    assert "Cost of a question beside the scores" in terminal.getvalue().splitlines()


def test_what_differs_from_the_defaults_and_what_the_user_wrote_is_listed(terminal: Terminal) -> None:
    tags = {"changed": "pipeline.k=0", "name": "no shots", "team": "[search]", "note": "a floor"}
    print_list(terminal, a_run("bird-dev", tags=tags))
    text = "".join(terminal.getvalue().split())
    for word in ("pipeline.k=0", "noshots", "team=[search]", "afloor"):
        assert word in text


def test_a_narrow_terminal_shows_the_verdict_of_a_nightly_run_in_whole_words(
    terminal: Terminal, tmp_path: Path
) -> None:
    night = a_night(Warehouse(tmp_path / "warehouse.duckdb"), two_runs(3, 20, 100), name="2026-11-21T01:30Z")
    print_document(Document("", (nights_table([night]),)), terminal)
    listed = terminal.getvalue()
    assert "2026-11-21T01:30Z" in listed
    assert set(night.verdict.split()) <= set(listed.split())
    print_document(night_document(night), terminal)
    (row,) = [line for line in terminal.getvalue().splitlines() if "42.00 %" in line]
    assert "regression" in row

"""Texts of models, databases and files on a terminal: shown, never obeyed."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import pytest

from flows.cli.display.gold_check import gold_document, key_document
from flows.cli.display.lists import print_answer, print_rows
from flows.cli.display.matrix import sweep_document
from flows.cli.display.question import print_lists
from flows.evaluate.answering import Answered
from flows.evaluate.gold_check import CheckedEntry, CheckedKey, CheckedSql, Verified
from flows.evaluate.judging import Judged, judged_document
from flows.matrix.matrix import CellResult, Sweep
from flows.runtime.control import Ui
from flows.runtime.summary import print_summary
from tasks.benchmarks.answer_keys import AnswerKey, KeyEntry
from tasks.core.outcome import Failure, Outcome
from tasks.core.records import Execution, Question
from tasks.documents.model import Document
from tasks.documents.terminal import print_document
from tasks.pages.comparison import comparison_document
from tasks.pages.lists import runs_table
from tasks.pages.run_page import RunView
from tasks.results.build_record import record_of
from tasks.results.compare import compare
from tasks.results.run_record import RunRecord, Tracked
from tasks.results.warehouse.views import QueryResult
from tasks.scoring.cost import Estimate
from tasks.scoring.execution.gold_check import Gold, GoldCheck, GoldReport, Golds
from tasks.scoring.scores import Verdict
from tasks.settings.assemble import benchmark_settings
from tasks.settings.home import Home
from tests.support.in_process import run
from tests.tasks.results.comparison_samples import two_runs, with_row
from tests.tasks.results.samples import make_run

EVIL = "a \x1b[2J\u202e\x9b31m [bold]b[/] \ud800 c"
SHOWN = "a ␛[2J<U+202E><U+009B>31m [bold]b[/] <U+D800> c"
OUTCOME = Outcome("1", EVIL)
UI = Ui(EVIL, EVIL)


def evaluated() -> RunRecord:
    row = with_row(
        two_runs(3, 2, 6)[0],
        4,
        outcome=Outcome("4", None, failure=Failure("backbone_error", "s", EVIL, retryable=True)),
        final=Verdict({"bird": False}, "no_answer"),
    ).rows
    record = record_of(make_run(), row, missing_databases={EVIL: 2}, gold_faults={EVIL: "error"})
    names = dict.fromkeys(("benchmark", "backbone", "pipeline", "fatal"), EVIL)
    more = {"translations": (EVIL,), "tags": {"name": EVIL, "changed": EVIL}, "notes": (EVIL,)}
    return record.model_copy(update=names | more | {"mlflow": Tracked(EVIL, EVIL, EVIL)})


def answered(execution: Execution, outcome: Outcome = OUTCOME) -> Callable[[TextIO], None]:
    question = Question("1", "?", "db")
    return lambda stream: print_answer(Answered(question, outcome, execution), stream)


def golds(stream: TextIO) -> None:
    checks = tuple(GoldCheck(EVIL, EVIL, EVIL, kind, EVIL) for kind in ("error", "empty"))
    source = Golds(EVIL, (Gold(EVIL, EVIL, EVIL),), by_question=False)
    found = Verified(benchmark_settings("demo", ()), source, GoldReport(checks, 1.0), "0", EVIL, EVIL)
    print_document(gold_document(found), stream)


def answer_key(stream: TextIO) -> None:
    entry = KeyEntry(question_id="1", action="replace", sql="SELECT 1", reason="r", source="s")
    found = CheckedEntry(
        entry, Question(EVIL, EVIL, "db"), (CheckedSql(EVIL, Execution("error", error=EVIL), None),)
    )
    checked = CheckedKey(benchmark_settings("demo", ()), AnswerKey(EVIL, Path(EVIL), "0", {}), (found,))
    print_document(key_document(checked), stream)


def sweep(stream: TextIO) -> None:
    cell = SimpleNamespace(
        name=EVIL, settings=SimpleNamespace(label=EVIL), varied=(EVIL,), free=True, unranked=""
    )
    done = CellResult(cell, Estimate(1, None, None, None, None), evaluated(), EVIL)  # type: ignore[arg-type]
    print_document(sweep_document(Sweep("s", (done,), page=EVIL)), stream)


def judged(stream: TextIO) -> None:
    stored = two_runs(3, 2, 6)[0]
    found = Judged(run=stored, backbone=EVIL, rows=stored.rows, failures={EVIL: EVIL})
    print_document(judged_document(found), stream)


def listed(stream: TextIO) -> None:
    stored = two_runs(3, 2, 6)[0]
    question = Question(EVIL, EVIL, "\x1b[2J")
    rows = [replace(row, question=question) for row in stored.rows]
    view = RunView(stored, {}, EVIL)
    print_lists(view, {"wrong": rows}, 1, stream)


def runs(stream: TextIO) -> None:
    names = dict.fromkeys(("benchmark", "backbone", "pipeline", "rule", "status"), EVIL)
    header = two_runs(3, 2, 6)[0].model_copy(update={**names, "tags": {"name": EVIL}})
    print_document(Document("", (runs_table([header], 9),)), stream)


def comparison(stream: TextIO) -> None:
    a, b = two_runs(1, 0, 6)
    row = a.rows[0]
    question, outcome = replace(row.question, text=EVIL), replace(row.outcome, sql=EVIL)
    print_document(
        comparison_document(compare(with_row(a, 0, outcome=outcome, question=question), b)), stream
    )


@pytest.mark.parametrize(
    "display",
    [
        lambda stream: print_summary(evaluated(), Home(Path("/nowhere")), stream, details=True, prefect=UI),
        lambda stream: print_summary(evaluated(), Home(Path("/nowhere")), stream),
        answered(Execution("ok", (EVIL,), ((EVIL,),), 1)),
        answered(Execution("ok", (EVIL,), ((EVIL * 9000,),), 1)),
        answered(Execution("error", error=EVIL)),
        answered(Execution("error"), Outcome("1", None, failure=Failure("k", "s", EVIL, retryable=False))),
        lambda stream: print_rows(QueryResult((EVIL,), ((EVIL,),)), stream),
        lambda stream: print_rows(QueryResult(tuple(f"{n}{EVIL}" for n in range(11)), ((EVIL,) * 11,)), stream),
        golds, answer_key, sweep, judged, listed, runs, comparison,
    ],
)  # fmt: skip
def test_no_display_obeys_a_text(display: Callable[[TextIO], None]) -> None:
    stream = io.StringIO()
    display(stream)
    shown = stream.getvalue()
    assert not set("\x1b\x9b\u202e\ud800") & set(shown)
    assert SHOWN in " ".join(shown.split()), shown


def test_the_sql_of_an_answer_is_exact_where_no_terminal_is() -> None:
    sql = "SELECT 'a\tb' -- [bold]\u3000\u00a0:smile:\n" + "FROM " * 90
    stream = io.StringIO()
    answered(Execution("ok", ("a",), ((1,),), 1), Outcome("1", sql))(stream)
    assert stream.getvalue().startswith(f"{sql}\n\n")


def test_an_error_message_is_not_obeyed(tmp_path: Path) -> None:
    ran = run(
        "answer", "?", "--home", str(tmp_path), "--database", str(tmp_path / EVIL.replace("\ud800", ""))
    )
    assert ran.code == 2 and "\x1b" not in ran.err and "␛[2J" in ran.err

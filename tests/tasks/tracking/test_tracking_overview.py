"""The first screen of a run: at most 40 lines of 100 columns, whatever has happened, and each thing once."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from tasks.documents.model import Sentence, plain
from tasks.documents.terminal import print_blocks, print_document
from tasks.scoring.build_report import build_report
from tasks.scoring.report import StageScore
from tasks.scoring.score import Score
from tasks.tracking.build_record import record_of
from tasks.tracking.comparison.compare import compare
from tasks.tracking.run_display.overview import BAR, bar, run_overview
from tasks.tracking.run_record import RunRecord
from tests.tasks.tracking.comparison_samples import two_runs
from tests.tasks.tracking.samples import make_report, make_run

LONG = "a sentence of a server that goes on and on " * 12


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(record: RunRecord, monkeypatch: pytest.MonkeyPatch, compared: bool = True) -> list[str]:
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    before = compare(*two_runs(13, 3, 60)) if compared else None
    print_document(run_overview(record, before, [Sentence("x" * 95)] * 4, seconds=41.5), stream)
    plain_text = Console(file=io.StringIO(), width=100)  # as a terminal wraps: at the last column
    plain_text.print(_without_codes(stream.getvalue()), markup=False, highlight=False)
    return plain_text.file.getvalue().splitlines()  # type: ignore[attr-defined]


def _without_codes(text: str) -> str:
    from rich.text import Text

    return Text.from_ansi(text).plain


def test_the_worst_run_fits_forty_lines_of_a_hundred_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = tuple(f"{place}_{'stage' * 5}" for place in range(1, 12))
    report = make_report(400, stages)
    more = {
        "fatal": LONG,
        "failures": {f"kind_{n}": n + 1 for n in range(5)},
        "failure_messages": {f"kind_{n}": LONG for n in range(5)},
        "notes": (LONG,) * 9,
        "changes": tuple(f"pipeline.{'setting' * 9}={n}" for n in range(30)),
        "tags": {"name": LONG},
        "translations": (LONG,),
        "scores": {
            "bird": Score(200, 400, rule="bird"),
            **{f"v{n}": Score(1, 400, rule="bird", variant=f"v{n}", title=LONG) for n in range(5)},
        },
    }
    lines = on_terminal(record_of(make_run(), report, seconds=19.9).model_copy(update=more), monkeypatch)
    assert len(lines) <= 40, "\n".join(lines)
    assert max(map(len, lines)) <= 100
    assert any("and 5 more stages" in line for line in lines)
    assert any("more remarks" in line for line in lines)


def test_score_problems_stages_cost_and_comparison_are_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    report = make_report(30)
    record = record_of(make_run(), report, seconds=19.9)
    text = " ".join(" ".join(on_terminal(record, monkeypatch)).split())
    score, stage = record.score, record.stages[1]
    for expected in (
        f"({score.correct} of {score.total}, rule bird, 95 % interval ",
        f"{stage.correct} of {stage.total}",
        f"+{stage.fixed}",
        "from scratch (120 calls paid, 7 from the cache)",
        "20 s answering, 41.5 s total",
        "This run beats the run before by 16.67 points",
        "13 fixed and 3 broken of 60 questions",
    ):
        assert expected in text, (expected, text)


def test_a_failed_question_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_report(11).rows  # the last one has no answer
    record = record_of(make_run(), build_report(rows, rule="bird", schemas={}))
    text = " ".join(" ".join(on_terminal(record, monkeypatch, compared=False)).split())
    assert text.count("no answer") == 1 and text.count("did not answer in time") == 1
    assert "1 of 11 questions has no answer (backbone_error) and counts as wrong" in text
    assert "run the same command again to retry only those" in text
    assert "without SQL" not in text


def test_a_run_without_a_problem_says_so_and_an_unknown_cost_is_not_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = make_report(9).rows
    record = record_of(make_run(), build_report(rows, rule="bird", schemas={}))
    assert not record.failures
    text = " ".join(" ".join(on_terminal(record, monkeypatch, compared=False)).split())
    assert "✓ 9 questions answered" in text
    unknown = record.model_copy(update={"cost": replace(record.cost, cost_usd=None, from_scratch_usd=None)})
    assert "paid unknown, unknown from scratch" in "\n".join(on_terminal(unknown, monkeypatch))
    elsewhere = record.model_copy(update={"cost": replace(record.cost, calls=None)})
    assert "cost unknown: the answers were made elsewhere" in "\n".join(on_terminal(elsewhere, monkeypatch))


@pytest.mark.parametrize(("stage", "parts"), [
    (StageScore(20, 40, name="first"), ("█" * 20, "", "")),
    (StageScore(24, 40, name="s", fixed=8, broken=4), ("█" * 16, "+" * 8, "×" * 4)),
    (StageScore(1000, 2000, name="s", fixed=1, broken=1), ("█" * 20, "+", "×")),
    (StageScore(0, 40, name="s", fixed=0, broken=0), ("", "", "")),
])  # fmt: skip
def test_a_bar_is_what_was_kept_then_fixed_then_broken(stage: StageScore, parts: tuple[str, ...]) -> None:
    drawn = bar(stage)
    assert tuple(plain(part) for part in drawn) == parts
    assert len(plain(drawn)) <= BAR + 2
    stream = io.StringIO()
    print_blocks(Console(file=stream, width=100), [Sentence(drawn)])
    assert stream.getvalue().strip() == "".join(parts)

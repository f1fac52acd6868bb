"""The first screen of a run, at most 40 lines of 100 columns, whatever has happened, and each thing once; its bill."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from flows.runtime.summary import next_steps
from tasks.core.outcome import Failure
from tasks.documents.model import Sentence, plain
from tasks.documents.terminal import print_blocks, print_document
from tasks.pages.first_screen import BAR, bar, run_document
from tasks.pages.run_details import savings_table
from tasks.pages.run_page import RunView, run_page
from tasks.results.build_record import record_of
from tasks.results.compare import compare
from tasks.results.run_record import RunRecord
from tasks.scoring.cost import Cost, Estimate
from tasks.scoring.metric import METRICS, ScoredRun, measure
from tasks.scoring.scores import NO_GOLD, Score, StageScore
from tests.tasks.results.comparison_samples import two_runs
from tests.tasks.results.samples import make_record, make_rows, make_run

LONG = "a sentence of a server that goes on and on " * 12


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(record: RunRecord, monkeypatch: pytest.MonkeyPatch, compared: bool = True) -> list[str]:
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    before = compare(*two_runs(13, 3, 60)) if compared else None
    document = run_document(record, before, (), [Sentence("x" * 95)] * 4, seconds=41.5, brief=True)
    print_document(document, stream)
    plain_text = Console(file=io.StringIO(), width=100)  # as a terminal wraps: at the last column
    plain_text.print(_without_codes(stream.getvalue()), markup=False, highlight=False)
    return plain_text.file.getvalue().splitlines()  # type: ignore[attr-defined]


def _without_codes(text: str) -> str:
    from rich.text import Text

    return Text.from_ansi(text).plain


def test_the_worst_run_fits_forty_lines_of_a_hundred_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = tuple(f"{place}_{'stage' * 5}" for place in range(1, 12))
    more = {
        "stages": tuple(
            StageScore(200, 400, name=name, fixed=min(place, 1), broken=0)
            for place, name in enumerate(stages)
        ),
        "fatal": LONG,
        "failures": {f"kind_{n}": n + 1 for n in range(5)},
        "failure_messages": {f"kind_{n}": LONG for n in range(5)},
        "notes": (LONG,) * 9,
        "tags": {"name": LONG, "changed": " ".join(f"pipeline.{'setting' * 9}={n}" for n in range(30))},
        "translations": (LONG,),
        "scores": {
            "bird": Score(200, 400, rule="bird"),
            **{f"v{n}": Score(1, 400, rule="bird", variant=f"v{n}", title=LONG) for n in range(5)},
        },
    }
    lines = on_terminal(record_of(make_run(), make_rows(400, stages), seconds=19.9, **more), monkeypatch)
    assert len(lines) <= 40, "\n".join(lines)
    assert max(map(len, lines)) <= 100
    assert any("and 5 more stages" in line for line in lines)
    assert any("more remarks" in line for line in lines)


def test_score_problems_stages_cost_and_comparison_are_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    record = make_record(30, seconds=19.9)
    cost = replace(record.cost, cost_usd=0.25, from_scratch_usd=0.75)
    record = record.model_copy(update={"cost": cost})
    text = " ".join(" ".join(on_terminal(record, monkeypatch)).split())
    score, stage = record.score, record.stages[1]
    for expected in (
        f"({score.correct} of {score.total}, rule bird, 95 % interval ",
        f"{stage.correct} of {stage.total}",
        f"+{stage.fixed}",
        "paid $0.2500, $0.7500 from scratch (66 calls paid, 46 from the cache)",
        "20 s answering, 41.5 s total",
        "This run beats the previous run by 16.67 points",
        "13 fixed and 3 broken of 60 questions",
    ):
        assert expected in text, (expected, text)


def test_a_failed_question_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = make_rows(11)  # the last one has no answer
    record = record_of(make_run(), rows)
    text = " ".join(" ".join(on_terminal(record, monkeypatch, compared=False)).split())
    assert text.count("no answer") == 1 and text.count("did not answer in time") == 1
    assert "1 of 11 questions has no answer (backbone_error) and counts as wrong" in text
    assert f"crosscheck rerun {record.run_id} retries only those" in text
    assert "without SQL" not in text


@pytest.mark.parametrize("status", ["failed", "interrupted", "killed"])
def test_an_unfinished_run_has_no_score_and_is_not_to_be_asked_again(
    monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    rows = make_rows(11)  # the last one has no answer, and could be asked again
    record = record_of(make_run(), rows)
    record = record.model_copy(update={"status": status})
    page = run_page(RunView(record, {}), ())
    shown = [*on_terminal(record, monkeypatch, compared=False), *next_steps(record), page.title, str(record)]
    text = " ".join(" ".join(shown).split())
    assert record.retryable == 1 and "crosscheck rerun" not in text and "%" not in text
    assert "the run has not finished" in text and "The command that began the run continues it" in text


def test_a_run_without_a_problem_says_so_and_an_unknown_cost_is_not_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = make_rows(9)
    record = record_of(make_run(), rows)
    assert not record.failures
    text = " ".join(" ".join(on_terminal(record, monkeypatch, compared=False)).split())
    assert "✓ 9 questions answered" in text
    unknown = record.model_copy(update={"cost": replace(record.cost, cost_usd=None, from_scratch_usd=None)})
    assert "paid unknown (" in "\n".join(on_terminal(unknown, monkeypatch))
    elsewhere = record.model_copy(update={"cost": replace(record.cost, calls=None)})
    free = record.model_copy(update={"cost": replace(record.cost, cost_usd=0.0, from_scratch_usd=0.0)})
    assert "21 calls, free of charge, 15 from the cache" in (
        text := "\n".join(on_terminal(free, monkeypatch))
    )
    assert "paid" not in text
    assert "cost unknown: the answers were made elsewhere" in "\n".join(on_terminal(elsewhere, monkeypatch))


@pytest.mark.parametrize(("status", "said"), [("running", 1), ("killed", 1), ("partial", 0), ("complete", 0)])
def test_the_cost_of_a_run_that_has_not_finished_is_said_to_be_of_its_ended_questions(
    status: str, said: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = record_of(make_run(), make_rows(9), status)
    text = " ".join(" ".join(on_terminal(record, monkeypatch, compared=False)).split())
    assert text.count("calls of questions whose result was not yet stored are not counted") == said


def test_successive_stages_without_a_change_share_a_row_and_the_last_stage_is_always_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def stage(place: int, *changes: int) -> StageScore:
        fixed, broken = changes or (None, None)
        return StageScore(20 + place, 40, name=f"{place}_stage", fixed=fixed, broken=broken)

    def rows(*stages: StageScore) -> list[str]:
        record = record_of(make_run(), make_rows(9)).model_copy(update={"stages": stages})
        lines = on_terminal(record, monkeypatch, compared=False)
        names = re.compile(r"(\d_stage.*|and \d+ more stages?)")
        return [" ".join(line.split()) for line in lines if names.match(line)]

    bar = "█" * 16
    assert rows(stage(1), stage(2, 0, 0), stage(3, 0, 0), stage(4, 3, 1), stage(5, 0, 0)) == [
        f"1_stage 52.50 % 21 of 40 {bar}",
        "2_stage to 3_stage no change",
        f"4_stage 60.00 % 24 of 40 {bar}++× +3 −1",
        "5_stage no change",
    ]
    first, *_, left_out, last = rows(stage(1), *(stage(place, 1, 0) for place in range(2, 10)))
    assert first.startswith("1_stage") and left_out == "and 3 more stages" and last.startswith("9_stage")
    assert (
        rows(*(stage(place, *(() if place == 1 else (1, 0))) for place in range(1, 8)))[-2]
        == "and 1 more stage"
    )


@pytest.mark.parametrize(("stage", "parts"), [
    (StageScore(20, 40, name="first"), ("█" * 15, "", "")),
    (StageScore(24, 40, name="s", fixed=8, broken=4), ("█" * 12, "+" * 6, "×" * 3)),
    (StageScore(1000, 2000, name="s", fixed=1, broken=1), ("█" * 15, "+", "×")),
    (StageScore(0, 40, name="s", fixed=0, broken=0), ("", "", "")),
])  # fmt: skip
def test_a_bar_is_what_was_kept_then_fixed_then_broken(stage: StageScore, parts: tuple[str, ...]) -> None:
    drawn = bar(stage)
    assert tuple(plain(part) for part in drawn) == parts
    assert len(plain(drawn)) <= BAR + 2
    stream = io.StringIO()
    print_blocks(Console(file=stream, width=100), [Sentence(drawn)])
    assert stream.getvalue().strip() == "".join(parts)


def test_the_bill_goes_from_the_list_price_to_what_was_paid_unless_it_is_unknown_or_nothing() -> None:
    cost = Cost(
        calls=10,
        cached_calls=2,
        list_usd=1.0,
        prompt_cache_usd=-0.125,
        tier_usd=0.5,
        cost_usd=0.625,
        reply_cache_usd=0.25,
        from_scratch_usd=0.875,
        flex_calls=8,
    )
    record = make_record(cost=cost)
    table = savings_table(record)
    assert table is not None and table.rows[-1] is not None
    assert table.rows[-1][1:] == ("$1.0000", "-$0.1250", "$0.5000", "$0.6250", "$0.2500", "$0.8750")
    right = record.score.correct
    assert "tier flex: 8 of 10 paid calls" in str(table.caption)
    assert f"per right answer: ${0.875 / right:,.4f} from scratch ($0.8750 / {right})" in str(table.caption)
    one = replace(cost, calls=1, flex_calls=1)
    table = savings_table(make_record(cost=one, forecast=Estimate(1, calls=1, cost_usd=0.5)))
    assert "tier flex: 1 of 1 paid call; forecast: $0.5000 for 1 call; " in str(table and table.caption)
    for cost in (Cost(), Cost(calls=5, list_usd=0.0, reply_cache_usd=0.0)):
        assert savings_table(make_record(cost=cost)) is None


def test_a_failed_question_without_gold_is_named_and_has_not_only_a_schema(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is in no count of scored questions, but a submission would lack it."""
    rows = make_rows(12)
    failure = Failure("backbone_error", "preliminary_sql", "It was silent.", True)
    without_gold = replace(rows[0].final, gold_status=NO_GOLD)
    lost = replace(rows[0].outcome, sql=None, failure=failure)
    rows = (replace(rows[0], executable=False, outcome=lost, final=without_gold), *rows[1:])
    unanswered, by_kind = METRICS.get("unanswered"), METRICS.get("errors_dac")
    record = record_of(make_run(), rows, measurements=measure(ScoredRun("bird", rows, {}), [unanswered]))
    assert (record.without_gold, record.unanswered, record.not_executable) == (1, 1, {})
    text = " ".join(" ".join(on_terminal(record, monkeypatch, compared=False)).split())
    assert "1 of the questions that are not scored has no answer" in text
    assert by_kind.of(ScoredRun("bird", rows[:1], {})) is None

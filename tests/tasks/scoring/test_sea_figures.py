from collections.abc import Mapping
from dataclasses import asdict, replace

from tasks.core.outcome import StageRecord
from tasks.core.records import Correction, Elimination
from tasks.scoring.metrics.dac import sea_figures
from tasks.scoring.report import QuestionScore, Ratio
from tests.tasks.scoring.samples import score

SQL = "SELECT 1"


def eliminated(outcome: str) -> StageRecord:
    return StageRecord("bias_elimination", "bias_elimination", asdict(Elimination(SQL, outcome)), False)  # type: ignore[arg-type]


def adjusted(before: str, after: str, rounds: int) -> StageRecord:
    value = asdict(Correction(SQL, rounds, before, after))
    return StageRecord("execution_adjustment", "execution_adjustment", value, False)


def walked(name: str, right: Mapping[str, str], *records: StageRecord) -> QuestionScore:
    return score(name, "bird", stages=right, records=records)


STAGES = ("1_preliminary_sql", "2_bias_elimination", "3_execution_adjustment")


def rights(*rules: str) -> Mapping[str, str]:
    return dict(zip(STAGES, rules, strict=False))


def test_both_refinements_are_counted() -> None:
    scores = [
        walked("1", rights("", "bird", "bird"), eliminated("changed"), adjusted("ok", "ok", 0)),
        walked("2", rights("bird", "", "bird"), eliminated("changed"), adjusted("error", "empty", 2)),
        walked("3", rights("bird", "bird", ""), eliminated("kept"), adjusted("timeout", "error", 10)),
        walked("4", rights("", "", "bird"), eliminated("unchanged"), adjusted("no_answer", "ok", 2)),
    ]
    assert sea_figures(scores, "bird") == {
        "sea/bias_elimination/asked": 4,
        "sea/bias_elimination/changed": 2,
        "sea/bias_elimination/kept": 1,
        "sea/bias_elimination/fixed": 1,
        "sea/bias_elimination/broken": 1,
        "sea/execution_adjustment/failing_before": Ratio(3, 4),
        "sea/execution_adjustment/failing_after": Ratio(1, 4),
        "sea/execution_adjustment/adjusted": 3,
        "sea/execution_adjustment/fixed": 2,
        "sea/execution_adjustment/broken": 1,
        "sea/execution_adjustment/rounds_2": 2,
        "sea/execution_adjustment/rounds_10": 1,
    }


def test_a_question_that_failed_on_the_way_stays_in_the_denominator_as_failing() -> None:
    failed = StageRecord("execution_adjustment", "execution_adjustment", None, False, error="down")
    scores = [
        walked("1", rights("bird", "bird", "bird"), adjusted("ok", "ok", 0)),
        walked("2", rights("bird", "bird"), failed),
        walked("3", {}),
        replace(walked("4", {}), executable=False),
    ]
    assert sea_figures(scores, "bird") == {
        "sea/execution_adjustment/failing_before": Ratio(2, 3),
        "sea/execution_adjustment/failing_after": Ratio(2, 3),
        "sea/execution_adjustment/adjusted": 0,
        "sea/execution_adjustment/fixed": 0,
        "sea/execution_adjustment/broken": 0,
    }


def test_another_pipeline_has_no_such_figures() -> None:
    assert sea_figures([walked("1", {"1_preliminary_sql": "bird"})], "bird") == {}
    assert sea_figures([], "bird") == {}


def test_right_is_what_the_rule_says() -> None:
    scores = [walked("1", rights("strict", "bird strict"), eliminated("changed"))]
    assert sea_figures(scores, "bird")["sea/bias_elimination/fixed"] == 1
    assert sea_figures(scores, "strict")["sea/bias_elimination/fixed"] == 0

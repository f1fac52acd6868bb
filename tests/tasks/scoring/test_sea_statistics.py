from collections.abc import Mapping
from dataclasses import asdict, replace

from tasks.records import Correction, Elimination, StageRecord
from tasks.scoring.papers.sea_sql import (
    AdjustmentStatistics,
    EliminationStatistics,
    RoundCount,
    SeaStatistics,
    sea_statistics,
)
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
    assert sea_statistics(scores, "bird") == SeaStatistics(
        4,
        EliminationStatistics(asked=4, changed=2, kept=1, fixed=1, broken=1),
        AdjustmentStatistics(
            Ratio(3, 4), Ratio(1, 4), (RoundCount(2, 2), RoundCount(10, 1)), fixed=2, broken=1
        ),
    )


def test_a_question_that_failed_on_the_way_stays_in_the_denominator_as_failing() -> None:
    failed = StageRecord("execution_adjustment", "execution_adjustment", None, False, error="down")
    scores = [
        walked("1", rights("bird", "bird", "bird"), adjusted("ok", "ok", 0)),
        walked("2", rights("bird", "bird"), failed),
        walked("3", {}),
        replace(walked("4", {}), executable=False),
    ]
    found = sea_statistics(scores, "bird")
    assert found is not None and found.questions == 3 and found.elimination is None
    assert found.adjustment == AdjustmentStatistics(Ratio(2, 3), Ratio(2, 3), (), 0, 0)
    assert found.adjustment.adjusted == 0


def test_another_pipeline_has_no_such_figures() -> None:
    assert sea_statistics([walked("1", {"1_preliminary_sql": "bird"})], "bird") is None
    assert sea_statistics([], "bird") is None


def test_right_is_what_the_rule_says() -> None:
    scores = [walked("1", rights("strict", "bird strict"), eliminated("changed"))]
    by_bird, by_strict = (sea_statistics(scores, rule) for rule in ("bird", "strict"))
    assert by_bird and by_bird.elimination and by_bird.elimination.fixed == 1
    assert by_strict and by_strict.elimination and by_strict.elimination.fixed == 0

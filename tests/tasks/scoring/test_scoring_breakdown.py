"""From question scores to the record of a run: denominators, stages, groups, faults, bill, variants and degradation."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.core.outcome import FAILED_ATTEMPT, Call, Failure, Outcome, StageRecord, Usage
from tasks.core.records import ColumnName, Link
from tasks.database.schema import Column, Schema, Table
from tasks.scoring.cost import percentile, total_cost
from tasks.scoring.degradation import about_models, find_degradation
from tasks.scoring.scores import (
    Accuracy,
    Differs,
    KeyVerdict,
    QuestionScore,
    Ratio,
    Score,
    StageScore,
    wilson,
)
from tasks.scoring.variants import find_variants, scores
from tests.tasks.results.samples import record_with
from tests.tasks.scoring.samples import call, record, score

BROKE = Failure("backbone_error", "preliminary_sql", "the model did not answer", retryable=True)
ALL = "bird spider strict"


def test_failed_questions_stay_in_every_denominator() -> None:
    run = record_with(
        [
            score("0", ALL, stages={"1_a": ALL, "2_b": ALL}),
            score("1", sql=None, failure=BROKE),
            score("2", sql=None, stages={"1_a": ""}),
        ]
    )
    assert (run.questions, run.scored, run.answered) == (3, 3, 1)
    assert run.score == Score(1, 3, rule="bird")
    assert [(stage.correct, stage.total) for stage in run.stages] == [(1, 3), (1, 3)]
    assert run.failures == {"backbone_error": 1, "no_answer": 1}
    assert run.retryable == 1


def test_missing_databases_are_counted_apart_and_never_scored() -> None:
    run = record_with(
        [
            score("0", ALL),
            score(
                "1",
                sql=None,
                database="gone",
                executable=False,
                failure=Failure("missing_database", "", "", False),
            ),
            score("2", sql=None, database="gone", executable=False),
        ]
    )
    assert (run.questions, run.scored, run.answered) == (3, 1, 1)
    assert run.score == Score(1, 1, rule="bird")
    assert run.missing_databases == {"gone": 2}
    assert run.failures == {}
    assert list(run.by_database) == ["shop"]


def test_stages_are_compared_with_the_stage_before() -> None:
    run = record_with(
        [
            score("0", ALL, stages={"1_a": ALL, "2_b": ALL, "3_c": ""}),
            score("1", ALL, stages={"1_a": "", "2_b": "bird", "3_c": "bird"}),
            score("2", "", stages={"1_a": "bird", "2_b": ""}),
            score("3", "", stages={"1_a": "", "2_b": "spider", "3_c": "bird"}),
        ]
    )
    assert run.stages == (
        StageScore(2, 4, name="1_a"),
        StageScore(2, 4, name="2_b", fixed=1, broken=1),
        StageScore(2, 4, name="3_c", fixed=1, broken=1),
    )


def test_stage_order_survives_questions_that_stopped_early_or_skipped_one() -> None:
    run = record_with(
        [
            score("0", stages={"preliminary": ""}),
            score("1", stages={"preliminary": "", "selected": ""}),
            score("2", stages={"preliminary": "", "augmented": "", "selected": "", "corrected": ""}),
        ]
    )
    assert [s.name for s in run.stages] == ["preliminary", "augmented", "selected", "corrected"]


def test_each_rule_has_its_own_accuracy() -> None:
    run = record_with([score("0", "bird"), score("1", "bird spider"), score("2", "")], "spider")
    assert {rule: score for rule, score in run.scores.items() if not score.variant} == {
        "spider": Score(1, 3, rule="spider"),
        "bird": Score(2, 3, rule="bird"),
        "strict": Score(0, 3, rule="strict"),
    }
    assert run.score == Score(1, 3, rule="spider")


def test_difficulties_come_easiest_first() -> None:
    run = record_with(
        [
            score("0", ALL, difficulty="challenging"),
            score("1", "", difficulty="simple"),
            score("2", ALL, difficulty="simple"),
            score("3", ALL, difficulty=None),
            score("4", ALL, difficulty="level 2"),
            score("5", "", difficulty="level 1"),
        ]
    )
    assert list(run.by_difficulty.items()) == [
        ("simple", Accuracy(1, 2)),
        ("challenging", Accuracy(1, 1)),
        ("level 1", Accuracy(0, 1)),
        ("level 2", Accuracy(1, 1)),
        ("ungraded", Accuracy(1, 1)),
    ]
    assert record_with([score("0", ALL)]).by_difficulty == {}


def test_faults_of_the_gold_are_listed_and_nothing_to_score_is_no_division_by_zero() -> None:
    run = record_with([score("0", ALL), score("7", gold="timeout")])
    assert run.gold_faults == {"7": "timeout"}
    assert run.score == Score(1, 2, rule="bird")
    run = record_with([])
    assert (run.score.ex, run.score.interval) == (None, None)
    assert run.stages == run.links == ()


def test_costs_are_kept_per_stage_and_in_total() -> None:
    run = record_with(
        [
            score("0", records=(record("link", call()), record("sql", call(), call(cached=True)))),
            score("1", records=(record("link", call(), restored=True), record("sql", call()))),
        ]
    )
    assert (run.cost.calls, run.cost.cached_calls, run.cost.cost_usd) == (3, 2, 1.5)
    assert {label: (c.calls, c.cached_calls) for label, c in run.stage_costs.items()} == {
        "link": (1, 1),
        "sql": (2, 1),
    }


def test_links_are_scored_over_the_scored_questions() -> None:
    schema = Schema(
        "shop",
        (Table("item", (Column("id"), Column("name"))), Table("sale", (Column("id"),))),
        dialect="sqlite",
    )
    link = Link(("item",), (ColumnName("item", "id"), ColumnName("item", "name")))
    gold = "SELECT name FROM item"
    run = record_with(
        [
            score("0", gold_sql=gold, links={"forward": link}),
            score("1", gold_sql=gold, sql=None, failure=BROKE),
            score("2", gold_sql=gold, links={"forward": link}, executable=False),
        ],
        schemas={"shop": schema},
    )
    (linking,) = run.links
    assert (linking.name, linking.nsr, linking.strict_recall) == ("forward", Ratio(1, 2), Ratio(1, 2))
    assert (linking.precision, linking.avg_tables, linking.avg_columns) == (Ratio(1, 2), 1.0, 2.0)
    assert linking.reduction == 1 - 2 / 3


SCORES = st.lists(
    st.builds(
        score,
        st.uuids().map(str),
        st.sampled_from(["", "bird", "spider", ALL]),
        stages=st.dictionaries(st.sampled_from(["1_a", "2_b", "3_c"]), st.sampled_from(["", "bird"])),
        sql=st.sampled_from(["SELECT 1", None]),
        difficulty=st.sampled_from([None, "easy", "hard"]),
        database=st.sampled_from(["a", "b"]),
        failure=st.sampled_from([None, BROKE]),
        executable=st.booleans(),
    ),
    max_size=8,
)


@given(SCORES)
def test_the_numbers_of_a_report_add_up(scores: list[QuestionScore]) -> None:
    run = record_with(scores)
    assert run.scored + sum(run.missing_databases.values()) == run.questions == len(scores)
    unanswered = sum(score.executable and score.outcome.sql is None for score in scores)
    assert sum(run.failures.values()) == unanswered
    assert run.answered == sum(score.outcome.sql is not None for score in scores)
    assert sum(r.total for r in run.by_database.values()) == run.scored
    assert sum(r.correct for r in run.by_database.values()) == run.score.correct
    assert all(stage.total == run.scored for stage in run.stages)
    for before, after in zip(run.stages, run.stages[1:], strict=False):
        assert after.correct - before.correct == after.fixed - after.broken


def test_paid_calls_are_added_up_and_cached_or_restored_ones_counted_apart() -> None:
    cost = total_cost([record("a", call(1.0, retries=2), call(3.0)), record("b", call(2.0))])
    assert (cost.calls, cost.cached_calls, cost.retries) == (3, 0, 2)
    assert (cost.input_tokens, cost.output_tokens, cost.cost_usd) == (30, 30, 1.5)
    assert (cost.p50_s, cost.p95_s) == (2.0, pytest.approx(2.9))
    cost = total_cost(
        [record("a", call(9.0), call(9.0, retries=3), restored=True), record("b", call(0.0, cached=True))]
    )
    assert (cost.calls, cost.cached_calls, cost.retries) == (0, 3, 0)
    assert (cost.input_tokens, cost.cost_usd, cost.p50_s) == (0, 0, None)


def test_an_unknown_price_or_count_of_a_paid_call_makes_the_sum_unknown() -> None:
    cost = total_cost([record("a", call(), call(cost=None, tokens=None))])
    assert cost.calls == 2
    assert cost.cost_usd is None
    assert cost.input_tokens is None
    assert total_cost([record("a", call(), call(cost=None, cached=True))]).cost_usd == 0.5
    cost = total_cost([record("a", call())])
    assert cost.reasoning_tokens is None
    assert cost.cached_input_tokens is None


@pytest.mark.parametrize(("values", "percent", "expected"), [
    ([], 50, None),
    ([4.0], 95, 4.0),
    ([1.0, 2.0, 3.0, 4.0], 50, 2.5),
    ([1.0, 2.0], 100, 2.0),
    ([1.0, 2.0], 0, 1.0),
])  # fmt: skip
def test_percentiles(values: list[float], percent: float, expected: float | None) -> None:
    assert percentile(values, percent) == expected


RIGHT, WRONG = "bird strict", ""
GOLDS = {"answer_keys": ["corrected=corrections.json"]}


def corrected(row: QuestionScore, change: Any, *, right: bool = False) -> QuestionScore:
    return replace(row, keys={"corrected": KeyVerdict(change, correct={"bird": right, "strict": right})})


def test_without_settings_there_are_the_official_scores_only() -> None:
    found = scores([score("1", RIGHT), score("2", WRONG)], ["bird", "strict"], {})
    assert {name: (each.rule, each.variant, each.correct, each.total) for name, each in found.items()} == {
        "bird": ("bird", "", 1, 2),
        "strict": ("strict", "", 1, 2),
    }
    assert found["bird"].interval == wilson(1, 2)


def test_corrected_golds_leave_withdrawn_questions_out_and_name_what_differs() -> None:
    rows = [
        corrected(score("1", WRONG), "replaced", right=True),
        corrected(score("2", RIGHT), "replaced"),
        corrected(score("3", RIGHT), "withdrawn"),
        score("4", RIGHT),
    ]
    found = scores(rows, ["bird", "strict"], GOLDS)
    assert list(found) == ["bird", "strict", "corrected", "corrected_strict"]
    assert (found["bird"].correct, found["bird"].total) == (3, 4)
    assert (found["corrected"].correct, found["corrected"].total) == (2, 3)
    assert found["corrected"].differs == Differs(("1",), ("2",), ("3",))
    assert found["corrected"].differs.in_words() == "right now: 1; wrong now: 2; withdrawn: 3"
    assert found["corrected"].changes == {"1": "replaced", "2": "replaced", "3": "withdrawn"}


def test_quarantined_questions_are_left_out_and_those_of_other_runs_say_nothing() -> None:
    rows = [score("1", RIGHT), score("2", WRONG)]
    found = scores(rows, ["bird"], {"quarantine": [2, "77"]})["without_quarantine"]
    assert (found.correct, found.total, found.differs.withdrawn) == (1, 1, ("2",))
    assert find_variants({"quarantine": ["77"]}, rows) == {}


def ran(stage: str, **facts: object) -> StageRecord:
    return StageRecord(stage, stage, None, False, **{"replies": 1, **facts})  # type: ignore[arg-type]


def outcome(id_: str, *records: StageRecord, failed: bool = False) -> Outcome:
    failure = Failure("backbone_error", "", "down", retryable=True) if failed else None
    return Outcome(id_, None if failed else "SELECT 1", stages=records, failure=failure)


def unread(stage: str, instead: str = "nothing was linked") -> StageRecord:
    return ran(stage, unreadable=1, fallback=instead)


def test_a_run_whose_replies_were_all_read_or_failed_is_not_degraded() -> None:
    found = find_degradation([outcome("1", ran("forward_link"), ran("preliminary_sql"))])
    assert (found.affected, found.questions, found.stages, found.sentences) == (0, 1, (), ())
    attempt = ran(FAILED_ATTEMPT, error="429")
    found = find_degradation([outcome("1", unread("forward_link"), failed=True), outcome("2", attempt)])
    assert (found.affected, found.questions, found.stages) == (0, 1, ())


def test_unreadable_replies_are_counted_with_what_stands_for_them() -> None:
    found = find_degradation(outcome(str(n), unread("forward_link"), ran("sql")) for n in range(30))
    assert (found.affected, found.questions, found.share) == (30, 30, 1.0)
    assert found.sentences == (
        "forward_link: 30 of 30 replies could not be read: nothing was linked.",
        "The score is that of the pipeline without forward_link.",
    )
    outcomes = [
        outcome("1", unread("forward_link")),
        *(outcome(str(n), ran("forward_link")) for n in (2, 3)),
    ]
    found = find_degradation(outcomes)
    assert found.sentences == (
        "forward_link: 1 of 3 replies could not be read: nothing was linked.",
        "1 of 3 questions that did not fail had a stage that fell back.",
    )


def test_fallbacks_and_failures_with_readable_replies_are_counted_apart() -> None:
    kept = ran("binary_selection", fallback="there was nothing to select from", replies=0)
    down = ran("bias_elimination", error="the server is down", replies=0)
    found = find_degradation([outcome("1", kept, down), outcome("2", ran("binary_selection"))])
    assert found.affected == 1
    assert [each.sentence for each in found.stages] == [
        "binary_selection: there was nothing to select from for 1 of 2 questions.",
        "bias_elimination: the server is down for 1 of 1 question.",
    ]


def test_of_several_reasons_one_is_said_to_be_the_most_frequent() -> None:
    texts = ("nothing to correct", "the server is down", "the server is down")
    fell_back = [outcome(str(n), ran("correction", fallback=text)) for n, text in enumerate(texts)]
    assert find_degradation(fell_back).stages[0].sentence == (
        "correction: most often the server is down for 3 of 3 questions."
    )


def test_a_question_is_affected_once_and_not_by_a_stage_that_the_settings_leave_out() -> None:
    found = find_degradation(
        [outcome("1", unread("forward_link"), unread("keywords", "no keyword was named"))]
    )
    assert (found.affected, len(found.stages)) == (1, 2)
    assert found.sentences[-1] == ("The score is that of the pipeline without forward_link and keywords.")
    skipped = ran("bias_elimination", skipped="no eliminator is configured", replies=0)
    found = find_degradation([outcome("1", skipped)])
    assert found.affected == 0
    assert found.sentences == ("bias_elimination: skipped for 1 of 1 question: no eliminator is configured.",)


def test_replies_of_several_models_are_said_unless_the_pipeline_names_several_backbones() -> None:
    def answered(id_: str, model: str) -> Outcome:
        return outcome(id_, ran("sql", calls=(Call("f" * 64, model, Usage(), False, 0.1),)))

    several = [answered("1", "m-large"), answered("2", "m-small"), answered("3", "m-large")]
    assert about_models(several, {}) == (
        "The replies are of 2 models, so the score is that of none of them alone: m-large (2 calls), m-small (1 call)."
    )
    assert about_models(several[:1], {}) == ""
    assert about_models(several, {"candidates": {"backbones": ["a", "b"]}}) == ""
    assert about_models(several, {"eliminator": "b"}) == ""

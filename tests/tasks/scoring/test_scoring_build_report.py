"""From question scores to the report: denominators that do not shrink, stages, groups, faults."""

from hypothesis import given
from hypothesis import strategies as st

from tasks.core.outcome import Failure
from tasks.core.records import ColumnName, Link
from tasks.database.schema import Column, Schema, Table
from tasks.scoring.build_report import build_report
from tasks.scoring.report import Accuracy, QuestionScore, Ratio, Score, StageScore
from tests.tasks.scoring.samples import call, record, score

BROKE = Failure("backbone_error", "preliminary_sql", "the model did not answer", retryable=True)
ALL = "bird spider strict"


def test_failed_questions_stay_in_every_denominator() -> None:
    report = build_report(
        [
            score("0", ALL, stages={"1_a": ALL, "2_b": ALL}),
            score("1", sql=None, failure=BROKE),
            score("2", sql=None, stages={"1_a": ""}),
        ],
        rule="bird",
        schemas={},
    )
    assert (report.questions, report.scored, report.answered) == (3, 3, 1)
    assert report.score == Score(1, 3, rule="bird")
    assert [(stage.correct, stage.total) for stage in report.stages] == [(1, 3), (1, 3)]
    assert report.failures == {"backbone_error": 1, "no_answer": 1}
    assert report.retryable == 1


def test_missing_databases_are_counted_apart_and_never_scored() -> None:
    report = build_report(
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
        ],
        rule="bird",
        schemas={},
    )
    assert (report.questions, report.scored, report.answered) == (3, 1, 1)
    assert report.score == Score(1, 1, rule="bird")
    assert report.missing_databases == {"gone": 2}
    assert report.failures == {}
    assert list(report.by_database) == ["shop"]


def test_stages_are_compared_with_the_stage_before() -> None:
    report = build_report(
        [
            score("0", ALL, stages={"1_a": ALL, "2_b": ALL, "3_c": ""}),
            score("1", ALL, stages={"1_a": "", "2_b": "bird", "3_c": "bird"}),
            score("2", "", stages={"1_a": "bird", "2_b": ""}),
            score("3", "", stages={"1_a": "", "2_b": "spider", "3_c": "bird"}),
        ],
        rule="bird",
        schemas={},
    )
    assert report.stages == (
        StageScore(2, 4, name="1_a"),
        StageScore(2, 4, name="2_b", fixed=1, broken=1),
        StageScore(2, 4, name="3_c", fixed=1, broken=1),
    )


def test_stage_order_survives_questions_that_stopped_early_or_skipped_one() -> None:
    report = build_report(
        [
            score("0", stages={"preliminary": ""}),
            score("1", stages={"preliminary": "", "selected": ""}),
            score("2", stages={"preliminary": "", "augmented": "", "selected": "", "corrected": ""}),
        ],
        rule="bird",
        schemas={},
    )
    assert [s.name for s in report.stages] == ["preliminary", "augmented", "selected", "corrected"]


def test_each_rule_has_its_own_accuracy() -> None:
    report = build_report(
        [score("0", "bird"), score("1", "bird spider"), score("2", "")], rule="spider", schemas={}
    )
    assert {rule: score for rule, score in report.scores.items() if not score.variant} == {
        "spider": Score(1, 3, rule="spider"),
        "bird": Score(2, 3, rule="bird"),
        "strict": Score(0, 3, rule="strict"),
    }
    assert report.score == Score(1, 3, rule="spider")


def test_difficulties_come_easiest_first() -> None:
    report = build_report(
        [
            score("0", ALL, difficulty="challenging"),
            score("1", "", difficulty="simple"),
            score("2", ALL, difficulty="simple"),
            score("3", ALL, difficulty=None),
            score("4", ALL, difficulty="level 2"),
            score("5", "", difficulty="level 1"),
        ],
        rule="bird",
        schemas={},
    )
    assert list(report.by_difficulty.items()) == [
        ("simple", Accuracy(1, 2)),
        ("challenging", Accuracy(1, 1)),
        ("level 1", Accuracy(0, 1)),
        ("level 2", Accuracy(1, 1)),
        ("ungraded", Accuracy(1, 1)),
    ]
    assert build_report([score("0", ALL)], rule="bird", schemas={}).by_difficulty == {}


def test_faults_of_the_gold_are_listed() -> None:
    report = build_report([score("0", ALL), score("7", gold="timeout")], rule="bird", schemas={})
    assert report.gold_faults == {"7": "timeout"}
    assert report.score == Score(1, 2, rule="bird")


def test_costs_are_kept_per_stage_and_in_total() -> None:
    report = build_report(
        [
            score("0", records=(record("link", call()), record("sql", call(), call(cached=True)))),
            score("1", records=(record("link", call(), restored=True), record("sql", call()))),
        ],
        rule="bird",
        schemas={},
    )
    assert (report.cost.calls, report.cost.cached_calls, report.cost.cost_usd) == (3, 2, 1.5)
    assert {label: (c.calls, c.cached_calls) for label, c in report.stage_costs.items()} == {
        "link": (1, 1),
        "sql": (2, 1),
    }


def test_nothing_to_score_is_no_division_by_zero() -> None:
    report = build_report([], rule="bird", schemas={})
    assert (report.score.ex, report.score.interval) == (None, None)
    assert report.stages == report.links == ()


def test_links_are_scored_over_the_scored_questions() -> None:
    schema = Schema(
        "shop",
        (Table("item", (Column("id"), Column("name"))), Table("sale", (Column("id"),))),
        dialect="sqlite",
    )
    link = Link(("item",), (ColumnName("item", "id"), ColumnName("item", "name")))
    gold = "SELECT name FROM item"
    report = build_report(
        [
            score("0", gold_sql=gold, links={"forward": link}),
            score("1", gold_sql=gold, sql=None, failure=BROKE),
            score("2", gold_sql=gold, links={"forward": link}, executable=False),
        ],
        rule="bird",
        schemas={"shop": schema},
    )
    (linking,) = report.links
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
    report = build_report(scores, rule="bird", schemas={})
    assert report.scored + sum(report.missing_databases.values()) == report.questions == len(scores)
    unanswered = sum(score.executable and score.outcome.sql is None for score in scores)
    assert sum(report.failures.values()) == unanswered
    assert report.answered == sum(score.outcome.sql is not None for score in scores)
    assert sum(r.total for r in report.by_database.values()) == report.scored
    assert sum(r.correct for r in report.by_database.values()) == report.score.correct
    assert all(stage.total == report.scored for stage in report.stages)
    for before, after in zip(report.stages, report.stages[1:], strict=False):
        assert after.fixed is not None
        assert after.broken is not None
        assert after.correct - before.correct == after.fixed - after.broken

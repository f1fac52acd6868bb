"""Why answers are wrong: causes of the closed list, DAC's four kinds of error, and questions without SQL."""

from collections import Counter
from dataclasses import asdict

from tasks.documents.model import Table
from tasks.scoring.error_classes import ERROR_CLASSES, ErrorClass, classify, dac_counts
from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.report import Measurement, QuestionScore
from tasks.scoring.score import Accuracy

DAC_ROWS = {
    "table": "table, wrong or missing",
    "column": "column, wrong or missing",
    "skeleton": "skeleton",
    "execution": "execution, any that did not end",
}
"""DAC's kinds of error, which join causes of the closed list, as rows of the table."""


def causes(run: ScoredRun) -> dict[str, tuple[ErrorClass, ...]]:
    """Return the causes of each wrong question, by id; a right one has none."""
    return {
        row.question.id: found
        for row in run.scored
        if row.question.database_id in run.schemas
        and (found := classify(row, run.rule, run.schemas[row.question.database_id]))
    }


def wrong_in_words(score: Accuracy) -> str:
    """Return how many scored questions are wrong, as a remark on their causes, which add up to more."""
    wrong = score.total - score.correct
    return f"{wrong:,} of {score.total:,} questions are wrong; one may have several causes"


def unanswered_questions(run: ScoredRun) -> tuple[str, ...]:
    """Return the ids of questions that were asked, or handed in, without a SQL."""
    return tuple(row.question.id for row in run.report.rows if is_unanswered(row))


def is_unanswered(row: QuestionScore) -> bool:
    """Return whether a question that was asked has no SQL."""
    failure = row.outcome.failure
    return not row.outcome.sql and not (failure and failure.kind == "missing_database")


@METRICS.register("errors")
@metric("Causes of wrong answers", unit="questions", better="lower", order=10)
def errors(run: ScoredRun) -> Measurement:
    """Count the wrong questions of each cause of the closed list; one question may have several."""
    found = causes(run)
    counter = Counter(name for names in found.values() for name in names)
    counted_causes = {name: counter[name] for name in ERROR_CLASSES}
    return Measurement(
        by_question={row.question.id: ", ".join(found.get(row.question.id, ())) for row in run.report.rows},
        further={f"ex_errors/{name}": count for name, count in counted_causes.items()},
        data=counted_causes,
        lines=(),  # every display has them as a table
    )


@METRICS.register("errors_dac")
@metric("Wrong answers by DAC's kinds of error", unit="questions", better="lower", order=10)
def errors_dac(run: ScoredRun) -> Measurement | None:
    """Count the wrong questions by DAC's kinds: table, column, skeleton, execution; None where no gold is a SQL."""
    if not _some_gold_sql(run):
        return None
    found = asdict(dac_counts(causes(run).values()))
    rows = tuple((DAC_ROWS[kind], f"{count:,}") for kind, count in found.items())
    return Measurement(
        further={f"ex_errors_dac/{kind}": count for kind, count in found.items()},
        data=found,
        lines=(),
        tables=(
            Table("By DAC's kinds of error", ("kind", "questions"), rows, wrong_in_words(run.report.score)),
        ),
    )


@METRICS.register("unanswered")
@metric("Questions without SQL", unit="questions", better="lower", order=900)
def unanswered(run: ScoredRun) -> Measurement:
    """Count the questions that were asked, or handed in, without a SQL; `run_problems` says them."""
    ids = unanswered_questions(run)
    return Measurement(further={"questions/unanswered": len(ids)}, data=list(ids), lines=())


def _some_gold_sql(run: ScoredRun) -> bool:
    """Return whether any scored question has a gold SQL, which the causes in a SQL's text are found with."""
    return any(row.gold_sql for row in run.scored) or not run.scored

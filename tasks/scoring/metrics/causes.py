"""Why answers are wrong: causes of the closed list, DAC's four kinds of error, and questions without SQL."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from tasks.core.outcome import Failure
from tasks.core.wording import agreeing, counted
from tasks.database.schema import Schema
from tasks.documents.model import Table
from tasks.scoring.metric import ScoredRun, metric
from tasks.scoring.scores import Accuracy, Measurement, QuestionScore, Verdict, is_right
from tasks.sql.parsing import parse
from tasks.sql.resolution import QueryParts, query_parts

ErrorClass = Literal[
    "no_answer",
    "missing_columns",
    "extra_columns",
    "missing_rows",
    "extra_rows",
    "row_order",
    "other_rows",
    "unparsable",
    "missing_table",
    "missing_column",
    "wrong_table",
    "wrong_column",
    "wrong_join",
    "wrong_skeleton",
    "wrong_value",
    "execution_error",
    "timeout",
    "empty_result",
    "too_many_rows",
    "gold_error",
    "gold_timeout",
    "backbone_error",
]
ERROR_CLASSES: tuple[ErrorClass, ...] = get_args(ErrorClass)

_MISSING_TABLE = re.compile(
    r"no such table|(?:table|relation)\b.*\b(?:does not|doesn't) exist", re.IGNORECASE
)
_MISSING_COLUMN = re.compile(
    r"no such column|unknown column|column\b.*\b(does not exist|not found)|does not have a column",
    re.IGNORECASE,
)
_WITHOUT_ROWS: frozenset[ErrorClass] = frozenset(
    (
        "unparsable",
        "execution_error",
        "timeout",
        "too_many_rows",
        "empty_result",
        "gold_error",
        "gold_timeout",
    )
)


def classify(score: QuestionScore, rule: str, schema: Schema) -> tuple[ErrorClass, ...]:
    """Return the causes why a question's final SQL is wrong under a rule, in the order of the list.

    A right answer has none. "gold_error" also stands for a gold that returns too much.
    """
    if is_right(score.final, rule) or not score.executable:
        return ()
    return classify_sql(score.outcome.sql, score.gold_sql, score.final, schema, score.outcome.failure)


def classify_sql(
    sql: str | None, gold_sql: str, verdict: Verdict, schema: Schema, failure: Failure | None = None
) -> tuple[ErrorClass, ...]:
    """Return the causes why a wrong SQL is wrong, in the order of `ERROR_CLASSES`; `failure`: why there is no SQL."""
    causes: set[ErrorClass] = set()
    if verdict.gold_status != "ok":
        causes.add("gold_timeout" if verdict.gold_status == "timeout" else "gold_error")
    if sql is None or not sql.strip():
        causes.add("backbone_error" if failure and failure.kind == "backbone_error" else "no_answer")
    else:
        causes |= _from_execution(verdict)
        if parse(sql, schema.dialect).tree is None:
            causes.add("unparsable")
        predicted, gold = query_parts(sql, schema), query_parts(gold_sql, schema)
        if predicted is not None and gold is not None:
            from_text = _from_text(predicted, gold)
            causes |= from_text
            both_have_rows = causes.isdisjoint(_WITHOUT_ROWS)
            # the same tables, joins, structure and values: what is left is which columns it selects, and where
            if both_have_rows and not from_text:
                causes.add("wrong_column")
    return tuple(name for name in ERROR_CLASSES if name in causes)


def dac_counts(errors: Iterable[tuple[ErrorClass, ...]]) -> dict[str, int]:
    """Count wrong answers by DAC's four kinds of error; one answer can count in several."""
    by_answer = [frozenset(causes) for causes in errors]
    return {
        kind: sum(not answer.isdisjoint(causes) for answer in by_answer)
        for kind, (_, causes) in DAC_KINDS.items()
    }


def _from_execution(verdict: Verdict) -> set[ErrorClass]:
    """Return the causes that the execution of a SQL shows; none where it ended and its rows do not differ."""
    if verdict.status == "error":
        patterns: dict[ErrorClass, re.Pattern[str]] = {
            "missing_table": _MISSING_TABLE,
            "missing_column": _MISSING_COLUMN,
        }
        causes = {name for name, pattern in patterns.items() if pattern.search(verdict.error)}
        return causes | {"execution_error"}
    if verdict.status == "timeout":
        return {"timeout"}
    if verdict.status == "too_large":
        return {"too_many_rows"}
    if verdict.row_count == 0:
        return {"empty_result"}
    return {verdict.difference} if verdict.difference else set()


def _from_text(predicted: QueryParts, gold: QueryParts) -> set[ErrorClass]:
    """Return the causes that show in the SQL itself, by the parts in which it differs from the gold."""
    wrong: dict[ErrorClass, bool] = {
        "wrong_table": predicted.tables != gold.tables,
        "wrong_join": predicted.tables == gold.tables and predicted.joins != gold.joins,
        "wrong_column": predicted.columns != gold.columns,
        "wrong_skeleton": predicted.skeleton != gold.skeleton,
        "wrong_value": predicted.values != gold.values,
    }
    return {cause for cause, is_wrong in wrong.items() if is_wrong}


DAC_KINDS: Mapping[str, tuple[str, tuple[ErrorClass, ...]]] = {
    "table": ("table, wrong or missing", ("wrong_table", "missing_table")),
    "column": ("column, wrong or missing", ("wrong_column", "missing_column")),
    "skeleton": ("skeleton", ("wrong_skeleton",)),
    "execution": ("execution, any that did not end", ("execution_error", "timeout", "too_many_rows")),
}
"""DAC's kinds of error: how the table calls each, and which causes of the closed list it joins."""


def causes(run: ScoredRun) -> dict[str, tuple[ErrorClass, ...]]:
    """Return the causes of each wrong question, by id; a right one has none."""
    return {
        row.question.id: names
        for row in run.scored
        if row.question.database_id in run.schemas
        and (names := classify(row, run.rule, run.schemas[row.question.database_id]))
    }


def wrong_in_words(score: Accuracy) -> str:
    """Return how many scored questions are wrong, as a remark on their causes, which add up to more."""
    wrong = score.total - score.correct
    questions = counted(int(score.total), "question")
    return f"{wrong:,} of {questions} {agreeing('is', wrong)} wrong; one may have several causes"


def is_unanswered(row: QuestionScore) -> bool:
    """Return whether a question that was asked has no SQL."""
    failure = row.outcome.failure
    return not row.outcome.sql and not (failure and failure.kind == "missing_database")


@metric("Causes of wrong answers", unit="questions", better="lower", order=10)
def errors(run: ScoredRun) -> Measurement:
    """Count the wrong questions of each cause of the closed list; one question may have several."""
    by_question = causes(run)
    counter = Counter(name for names in by_question.values() for name in names)
    return Measurement(
        by_question={row.question.id: ", ".join(by_question.get(row.question.id, ())) for row in run.rows},
        data={name: counter[name] for name in ERROR_CLASSES},
        lines=(),  # every display has them as a table
    )


@metric("Wrong answers by DAC's kinds of error", unit="questions", better="lower", order=10)
def errors_dac(run: ScoredRun) -> Measurement | None:
    """Count the wrong questions by DAC's kinds: table, column, skeleton, execution; None where no gold is a SQL."""
    if not any(row.gold_sql for row in run.scored):
        return None
    kinds = dac_counts(causes(run).values())
    titles = {kind: title for kind, (title, _) in DAC_KINDS.items()}
    rows = tuple((titles[kind], f"{count:,}") for kind, count in kinds.items())
    return Measurement(
        data=kinds,
        lines=(),
        tables=(Table("By DAC's kinds of error", ("kind", "questions"), rows, wrong_in_words(run.score)),),
    )


@metric("Questions without SQL", unit="questions", better="lower", order=900)
def unanswered(run: ScoredRun) -> Measurement:
    """Count the questions that were answered or submitted without SQL: `tasks.pages.first_screen.problems` says it."""
    ids = [row.question.id for row in run.rows if is_unanswered(row)]
    return Measurement(further={"questions/unanswered": len(ids)}, data=ids, lines=())

"""Why an answer is wrong: a closed list of causes, and DAC's four counts."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from tasks.core.outcome import Failure
from tasks.database.schema import Schema
from tasks.scoring.report import QuestionScore, Verdict, is_right
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


_DID_NOT_END: frozenset[ErrorClass] = frozenset(
    {
        "unparsable",
        "execution_error",
        "timeout",
        "too_many_rows",
        "empty_result",
        "gold_error",
        "gold_timeout",
    }
)


@dataclass(frozen=True, slots=True)
class DacCounts:
    """Wrong answers by DAC's kinds of error; one answer can count in several."""

    table: int  # a table wrong or missing
    column: int  # a column wrong or missing
    skeleton: int  # another structure than the gold's
    execution: int  # did not run to its end


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
    """Return the causes why a SQL is wrong, in the order of the list; the caller knows that it is wrong."""
    found: set[ErrorClass] = set()
    if verdict.gold_status != "ok":
        found.add("gold_timeout" if verdict.gold_status == "timeout" else "gold_error")
    if sql is None or not sql.strip():
        found.add("backbone_error" if failure and failure.kind == "backbone_error" else "no_answer")
    else:
        found |= _from_execution(verdict)
        if parse(sql, schema.dialect).tree is None:
            found.add("unparsable")
        predicted, gold = query_parts(sql, schema), query_parts(gold_sql, schema)
        if predicted is not None and gold is not None:
            # the same tables, joins, structure and values: what is left is which columns it selects, and where
            found |= _from_text(predicted, gold) or (set() if found & _DID_NOT_END else {"wrong_column"})
    return tuple(name for name in ERROR_CLASSES if name in found)


def dac_counts(errors: Iterable[tuple[ErrorClass, ...]]) -> DacCounts:
    """Count answers by DAC's four kinds of error."""

    def count(*names: ErrorClass) -> int:
        return sum(not names_found.isdisjoint(names) for names_found in sets)

    sets = [frozenset(names) for names in errors]
    return DacCounts(
        count("wrong_table", "missing_table"),
        count("wrong_column", "missing_column"),
        count("wrong_skeleton"),
        count("execution_error", "timeout", "too_many_rows"),
    )


def _from_execution(verdict: Verdict) -> set[ErrorClass]:
    found: set[ErrorClass] = set()
    if verdict.status == "error":
        found.add("execution_error")
        if _MISSING_TABLE.search(verdict.error):
            found.add("missing_table")
        if _MISSING_COLUMN.search(verdict.error):
            found.add("missing_column")
    elif verdict.status == "timeout":
        found.add("timeout")
    elif verdict.status == "too_large":
        found.add("too_many_rows")
    elif verdict.row_count == 0:
        found.add("empty_result")
    elif verdict.difference:
        found.add(verdict.difference)
    return found


def _from_text(predicted: QueryParts, gold: QueryParts) -> set[ErrorClass]:
    found: set[ErrorClass] = set()
    if predicted.tables != gold.tables:
        found.add("wrong_table")
    elif predicted.joins != gold.joins:
        found.add("wrong_join")
    if predicted.columns != gold.columns:
        found.add("wrong_column")
    if predicted.skeleton != gold.skeleton:
        found.add("wrong_skeleton")
    if predicted.values != gold.values:
        found.add("wrong_value")
    return found

"""The table of predictions: one row per question, the same columns in the same order in every run."""

import json
from collections.abc import Iterable
from typing import Any

from tasks.scoring.execution.rules import RULES
from tasks.scoring.report import QuestionScore, Report, is_right

FILE = "predictions.json"
"""Name of the table among the run's artifacts, the same in every run, so that MLflow compares runs by it."""


def columns(report: Report) -> tuple[str, ...]:
    """Return the columns: what is the same in every run first, then metrics, per stage SQL and verdict, gold last.

    MLflow lays tables of several runs side by side by their first column, and shows the second one of each.
    """
    known = tuple(RULES)
    rules = sorted(report.rules, key=lambda rule: (known.index(rule) if rule in known else len(known), rule))
    fixed = (
        "asked",
        "answer",
        "question_id",
        "database",
        "difficulty",
        "question",
        "evidence",
        "predicted_sql",
        "correct",
        "status",
        "error",
        "attempts",
    )
    stages = (f"{stage.name}{part}" for stage in report.stages for part in ("/sql", "/correct"))
    metrics = (name for name, found in report.measurements.items() if found.by_question)
    return (*fixed, *(f"ex_{rule}" for rule in rules), *metrics, *stages, "gold_sql")


def table(report: Report) -> str:
    """Return the table as MLflow's `log_table` would write it (JSON, "split": columns and rows).

    Writing it here keeps a second logging of the same run from appending every row once more, which is what
    `log_table` does with a table that is already there.
    """
    names = columns(report)
    rows = [
        [cells.get(name) for name in names]
        for cells in (_metric_cells(row, report) | _cells(row, report.rule) for row in report.rows)
    ]
    return json.dumps({"columns": names, "data": rows}, ensure_ascii=False)


def status(row: QuestionScore) -> str:
    """Return the status of the final SQL's execution, or why there is none."""
    if not row.executable:
        return "missing_database"
    return row.outcome.failure.kind if row.outcome.failure else row.final.status


def _cells(row: QuestionScore, rule: str) -> dict[str, Any]:
    failure = row.outcome.failure
    cells: dict[str, Any] = {
        "asked": f"{row.question.id} · {row.question.text}",
        "answer": _answer(row, rule),
        "question_id": row.question.id,
        "database": row.question.database_id,
        "difficulty": row.question.difficulty,
        "question": row.question.text,
        "evidence": row.question.evidence,
        "predicted_sql": row.outcome.sql,
        "correct": row.final.correct.get(rule),
        "status": status(row),
        "error": row.final.error or (failure.message if failure else ""),
        "attempts": row.outcome.attempts,
        "gold_sql": row.gold_sql,
    }
    cells |= {f"ex_{name}": right for name, right in row.final.correct.items()}
    cells |= dict(_stage_cells(row, rule))
    return cells


def _metric_cells(row: QuestionScore, report: Report) -> dict[str, Any]:
    """Return the question's value of every metric that has one; a question it does not know has none."""
    return {
        name: found.by_question.get(row.question.id)
        for name, found in report.measurements.items()
        if found.by_question
    }


def _answer(row: QuestionScore, rule: str) -> str:
    """Return the SQL with its verdict, for reading."""
    if row.outcome.sql is None:
        return f"– {status(row)}"
    failed = "" if row.final.status == "ok" else f"({status(row)}) "
    return f"{'✓' if is_right(row.final, rule) else '✗'} {failed}{row.outcome.sql}"


def _stage_cells(row: QuestionScore, rule: str) -> Iterable[tuple[str, Any]]:
    for candidate in row.outcome.candidates:
        yield f"{candidate.stage}/sql", candidate.sql
    for name, verdict in row.stages.items():
        yield f"{name}/correct", verdict.correct.get(rule)

"""The table of predictions: one row per question, the same columns in the same order in every run."""

import json
from collections.abc import Iterable
from typing import Any

from tasks.scoring.details import Details
from tasks.scoring.report import QuestionScore, Report

FILE = "predictions.json"
"""Name of the table among the run's artifacts, the same in every run, so that MLflow compares runs by it."""

_RULES = ("bird", "spider", "strict", "subset")


def columns(report: Report) -> tuple[str, ...]:
    """Return the columns: what is the same in every run first, then per stage SQL and verdict, gold last.

    MLflow lays tables of several runs side by side by their first column, and shows the second one of each.
    """
    rules = sorted(
        report.rules, key=lambda rule: (_RULES.index(rule) if rule in _RULES else len(_RULES), rule)
    )
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
    causes = ("errors",) if report.details else ()
    return (*fixed, *causes, *(f"ex_{rule}" for rule in rules), *_further(report), *stages, "gold_sql")


def table(report: Report) -> str:
    """Return the table as MLflow's `log_table` would write it (JSON, "split": columns and rows).

    Writing it here keeps a second logging of the same run from appending every row once more, which is what
    `log_table` does with a table that is already there.
    """
    names = columns(report)
    rows = [
        [cells.get(name) for name in names]
        for cells in (_cells(row, report.rule) | _detail_cells(row, report.details) for row in report.rows)
    ]
    return json.dumps({"columns": names, "data": rows}, ensure_ascii=False)


def status(row: QuestionScore) -> str:
    """Return how the final SQL fared: its execution's status, or why there is none."""
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


def _answer(row: QuestionScore, rule: str) -> str:
    """Return the SQL with its verdict, for reading."""
    if row.outcome.sql is None:
        return f"– {status(row)}"
    failed = "" if row.final.status == "ok" else f"({status(row)}) "
    return f"{'✓' if row.final.correct.get(rule) else '✗'} {failed}{row.outcome.sql}"


def _further(report: Report) -> tuple[str, ...]:
    details = report.details
    matched = ("exact_match",) if details and details.exact_match else ()
    return (*matched, *(("soft_f1",) if details and details.soft_f1 else ()))


def _detail_cells(row: QuestionScore, details: Details | None) -> dict[str, Any]:
    """Return what lies behind a question's score; its causes as text, since a cell of MLflow's table holds no list."""
    if details is None:
        return {}
    name = row.question.id
    cells: dict[str, Any] = {"errors": ", ".join(details.errors_by_question.get(name, ()))}
    if details.exact_match and row.executable:
        cells["exact_match"] = name in details.exact_match.matched
    if details.soft_f1:
        cells["soft_f1"] = details.soft_f1.by_question.get(name)
    return cells


def _stage_cells(row: QuestionScore, rule: str) -> Iterable[tuple[str, Any]]:
    for candidate in row.outcome.candidates:
        yield f"{candidate.stage}/sql", candidate.sql
    for name, verdict in row.stages.items():
        yield f"{name}/correct", verdict.correct.get(rule)

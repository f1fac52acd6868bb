"""The table of predictions, one row per question, as MLflow has it."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from tasks.core.wording import counted, storable
from tasks.results.run_record import RunRecord
from tasks.scoring.execution.rules import RULES
from tasks.scoring.scores import QuestionScore, is_right
from tasks.scoring.variants import Variant, find_variants

FILE = "predictions.json"
"""Name of the table among the run's artifacts, the same in every run, so that MLflow compares runs by it."""

_COLUMNS: dict[str, Callable[[QuestionScore, str], Any]] = {
    "asked": lambda row, _: f"{row.question.id} · {row.question.text}",
    "answer": lambda row, rule: _answer(row, rule),
    "question_id": lambda row, _: row.question.id,
    "database": lambda row, _: row.question.database_id,
    "difficulty": lambda row, _: row.question.difficulty,
    "question": lambda row, _: row.question.text,
    "evidence": lambda row, _: row.question.evidence,
    "predicted_sql": lambda row, _: row.outcome.sql,
    "correct": lambda row, rule: row.final.correct.get(rule),
    "status": lambda row, _: row.status,
    "error": lambda row, _: row.final.error or (row.outcome.failure.message if row.outcome.failure else ""),
    "attempts": lambda row, _: row.outcome.attempts,
}
"""Columns that every run has, and their values by question and headline rule.

MLflow lays tables of several runs side by side by their first column, and shows the second one of each.
"""

_STATUS_IN_WORDS = {
    "error": "wrong, does not run",
    "timeout": "wrong, stopped at the time limit",
    "too_large": "wrong, more rows than are allowed",
    "no_answer": "no answer",
}


def table(record: RunRecord) -> str:
    """Return the table as MLflow's `log_table` would write it (JSON, "split": columns and rows).

    Columns that every run has stand first, then rules, metrics, and per stage SQL and verdict; the gold is last. It is
    written here because `log_table` would append every row once more when a run is logged again.
    """
    variants = find_variants(record.settings_of("benchmark"), record.rows)
    rules = [rule for rule in RULES if rule in record.scores]
    metrics = (name for name, found in record.measurements.items() if found.by_question)
    stages = (f"{stage.name}{part}" for stage in record.stages for part in ("/sql", "/correct"))
    scores = (f"ex_{name}" for name in (*rules, *variants))
    names = (*_COLUMNS, *scores, *metrics, *stages, "gold_sql")
    cells = (_cells(row, record, variants) for row in record.rows)
    rows = [[cell.get(name) for name in names] for cell in cells]
    return storable(json.dumps({"columns": names, "data": rows}, ensure_ascii=False))


def _cells(row: QuestionScore, record: RunRecord, variants: Mapping[str, Variant]) -> dict[str, Any]:
    """Return the question's values by column; a metric that does not know the question has none."""
    cells: dict[str, Any] = {
        name: found.by_question.get(row.question.id) for name, found in record.measurements.items()
    }
    cells |= {name: value(row, record.rule) for name, value in _COLUMNS.items()}
    cells |= {f"ex_{name}": right for name, right in row.final.correct.items()}
    if row.executable:
        cells |= {f"ex_{name}": variant.judge(row, record.rule) for name, variant in variants.items()}
    cells |= {f"{candidate.stage}/sql": candidate.sql for candidate in row.outcome.candidates}
    cells |= {f"{name}/correct": verdict.correct.get(record.rule) for name, verdict in row.stages.items()}
    return cells | {"gold_sql": row.gold_sql}


def _answer(row: QuestionScore, rule: str) -> str:
    if row.outcome.sql is None:
        return f"– {row.status}"
    failed = "" if row.final.status == "ok" else f"({row.status}) "
    return f"{'✓' if is_right(row.final, rule) else '✗'} {failed}{row.outcome.sql}"


def answer_in_words(score: QuestionScore, rule: str) -> str:
    """Describe one answer: right, wrong, or why it could not be judged, with the database's message."""
    final = score.final
    failure = score.outcome.failure
    rows = "" if final.row_count is None else f", {counted(final.row_count, 'row')}"
    if is_right(final, rule):
        return f"right{rows}"
    if final.status == "ok":
        return f"wrong: {final.difference_in_words}" if final.difference else f"wrong{rows}"
    status = _STATUS_IN_WORDS.get(final.status, final.status)
    why = failure.message if failure else final.error
    return f"{status}: {why}" if why else status

"""A comparison as plain JSON: the object of `crosscheck compare --json`."""

from dataclasses import asdict
from typing import Any

from tasks.scoring.report import QuestionScore, Ratio, is_right
from tasks.scoring.significance import PairedTest, needed_net
from tasks.tracking.comparison.metric_rows import MetricRow
from tasks.tracking.comparison.run_comparison import Contrast, Pair, RunComparison, Side


def as_object(comparison: RunComparison) -> dict[str, Any]:
    """Return the comparison with every flipped question; what is not known is null, never 0."""
    run, without = comparison.a.run, comparison.without_quarantine
    return {
        "benchmark": run.benchmark,
        "revision": run.revision,
        "question_sha256": run.question_sha256,
        "rule": comparison.rule,
        "a": _side(comparison.a),
        "b": _side(comparison.b),
        **_result(comparison.result),
        "not_ranked": comparison.result.not_ranked or None,
        "same_sql": comparison.same_sql,
        "by_difficulty": [_contrast(part) for part in comparison.by_difficulty],
        "by_database": [_contrast(part) for part in comparison.by_database],
        "stages": [_contrast(stage) for stage in comparison.stages],
        "metrics": [_metric(row) for row in comparison.metrics],
        "settings": [asdict(change) for change in comparison.settings],
        "warnings": list(comparison.warnings),
        "quarantined": list(comparison.quarantined),
        "without_quarantine": _result(without) if without else None,
        "corrected": comparison.corrected.as_object() if comparison.corrected else None,
        "flips": [_flip(pair, comparison.rule) for pair in comparison.flips],
    }


def _result(result: PairedTest) -> dict[str, Any]:
    return {
        **_values(result, "questions", "difference"),
        "interval": _values(result, "low", "high", "confidence"),
        **_values(result, "p_value", "significant", "better", "verdict"),
        "needed_net": needed_net(result.differing, result.level),
        "both_right": result.both_right,
        "fixed": len(result.fixed),
        "broken": len(result.broken),
        "both_wrong": result.both_wrong,
    }


def _side(side: Side) -> dict[str, Any]:
    cost = side.cost
    return {
        **_values(side.run, "run_id", "backbone", "pipeline"),
        "status": side.status,
        "tags": dict(side.run.tags),
        "started": side.run.started.isoformat(timespec="seconds"),
        "engine": side.run.engine,
        "ex": side.ex.as_object() | {"low": side.low, "high": side.high},
        "left_out": list(side.only),
        "not_executable": side.not_executable,
        "cost": {
            **_values(cost, "calls", "cached_calls", "retries"),
            "paid_tokens": {"input": cost.input_tokens, "output": cost.output_tokens},
            "tokens": {"input": side.input_tokens, "output": side.output_tokens},
            "cost_usd": cost.cost_usd,
            "from_scratch_usd": cost.from_scratch_usd,
            "call_p50_seconds": cost.p50_s,
            "call_p95_seconds": cost.p95_s,
        },
    }


def _contrast(contrast: Contrast) -> dict[str, Any]:
    return {
        "name": contrast.name,
        "a": contrast.a.as_object() if contrast.a else None,
        "b": contrast.b.as_object() if contrast.b else None,
        **_values(contrast, "difference", "fixed", "broken", "p_value", "adjusted_p"),
    }


def _metric(row: MetricRow) -> dict[str, Any]:
    a, b = (value.as_object() if isinstance(value, Ratio) else value for value in (row.a, row.b))
    named = {"name": row.metric, "part": row.part or None, "title": row.title, "better": row.better}
    return named | {"a": a, "b": b, "difference": row.difference}


def _flip(pair: Pair, rule: str) -> dict[str, Any]:
    question = pair.question
    return {
        "question_id": question.id,
        "change": pair.change,
        "database": question.database_id,
        "difficulty": question.difficulty,
        "question": question.text,
        "evidence": question.evidence,
        "gold_sql": pair.gold_sql,
        "a": _answer(pair.a, rule),
        "b": _answer(pair.b, rule),
    }


def _answer(score: QuestionScore, rule: str) -> dict[str, Any]:
    final = score.final
    return {
        "sql": score.outcome.sql,
        "correct": is_right(final, rule),
        "status": final.status,
        "error": final.error or None,
        "row_count": final.row_count,
        "failure": score.outcome.failure.message if score.outcome.failure else None,
        "stages": {stage: is_right(verdict, rule) for stage, verdict in score.stages.items()},
    }


def _values(record: object, *names: str) -> dict[str, Any]:
    """Return some of a record's fields and properties by their names."""
    return {name: getattr(record, name) for name in names}

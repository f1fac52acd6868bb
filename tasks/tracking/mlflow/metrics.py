"""A report as MLflow metrics: names, values and steps."""

from collections.abc import Iterator
from dataclasses import dataclass

from tasks.scoring.cost import Cost
from tasks.scoring.report import Ratio, Report, Value
from tasks.scoring.score import Accuracy

Logged = Value | Accuracy | None


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric value; `step` is the stage number of a stepped series and 0 elsewhere."""

    name: str
    value: float
    step: int = 0


def measures(report: Report, seconds: float | None = None) -> tuple[Measure, ...]:
    """Return the metrics of a run; a value that is not known is left out, never 0.

    MLflow's UI sorts metrics by name, and groups them by what stands before the slash: the names are chosen
    so that `ex` comes first and everything about one subject stands together.
    """
    values = ((name, _number(value), step) for name, value, step in _values(report, seconds))
    return tuple(Measure(name, value, step) for name, value, step in values if value is not None)


def _number(value: Logged) -> float | None:
    """Return a value; of a share six decimals, which MLflow shows in full; None of nothing."""
    if value is None or isinstance(value, int | float):
        return value
    share = value.value if isinstance(value, Ratio) else value.ex
    return None if share is None else round(share, 6)


def _values(report: Report, seconds: float | None) -> Iterator[tuple[str, Logged, int]]:
    """Yield name, value and step of each metric; None for what is not known."""
    for name, value in _plain(report).items():
        yield name, value, 0
    for number, stage in enumerate(report.stages, start=1):
        yield "ex_by_stage", stage, number
    for found in report.measurements.values():
        for name, values in found.series.items():
            for step, value in enumerate(values, start=1):
                yield name, value, step
    yield "usage/seconds", seconds, 0


def _plain(report: Report) -> dict[str, Logged]:
    """Return the metrics without steps; the value of a registered metric stands under the metric's name."""
    values: dict[str, Logged] = {"ex": report.score}
    values |= {f"ex_{name}": score for name, score in report.scores.items()}
    values |= {f"ex_by_difficulty/{grade}": ratio for grade, ratio in report.by_difficulty.items()}
    for stage in report.stages:
        values[f"stage_ex/{stage.name}"] = stage
        values[f"stage_fixed/{stage.name}"] = stage.fixed
        values[f"stage_broken/{stage.name}"] = stage.broken
    for link in report.linking:
        for name in ("nsr", "strict_recall", "precision", "avg_tables", "avg_columns", "reduction"):
            values[f"linking/{link.name}/{name}"] = getattr(link, name)
    for name, score in {"": report.score, **report.variants}.items():
        end = f"_{name}" if name else ""
        values |= {f"questions/correct{end}": score.correct, f"questions/total{end}": score.total}
    values |= {f"questions/differs_{name}": score.differs.count for name, score in report.variants.items()}
    values |= {
        "questions/selected": report.questions,
        "questions/scored": report.scored,
        "questions/answered": report.answered,
        "questions/failed": sum(report.failures.values()),
        "questions/retryable": report.retryable,
        "questions/database_missing": sum(report.missing_databases.values()),
        "questions/gold_fault": len(report.gold_faults),
        "questions/degraded": report.degradation.affected,
    }
    for each in report.degradation.stages:
        values[f"stage_unreadable/{each.stage}"] = Ratio(each.unreadable, each.replies)
        values[f"stage_fallbacks/{each.stage}"] = each.fallbacks
    values |= {f"failures/{kind}": count for kind, count in report.failures.items()}
    for name, found in report.measurements.items():
        values |= {name: found.value} | dict(found.further)
    for prefix, cost in {"usage": report.cost, **_by_stage(report)}.items():
        values |= {f"{prefix}/{name}": value for name, value in _usage(cost).items()}
    return values


def _by_stage(report: Report) -> dict[str, Cost]:
    return {f"usage_by_stage/{label}": cost for label, cost in report.stage_cost.items()}


def _usage(cost: Cost) -> dict[str, Logged]:
    return {
        "calls": cost.calls,
        "cached_calls": cost.cached_calls,
        "retries": cost.retries,
        "input_tokens": cost.input_tokens,
        "cached_input_tokens": cost.cached_input_tokens,
        "output_tokens": cost.output_tokens,
        "reasoning_tokens": cost.reasoning_tokens,
        "cost_usd": _dollars(cost.cost_usd),
        "from_scratch_usd": _dollars(cost.from_scratch_usd),
        "list_usd": _dollars(cost.list_usd),
        "saved_by_prompt_cache_usd": _dollars(cost.prompt_cache_usd),
        "saved_by_tier_usd": _dollars(cost.tier_usd),
        "saved_by_reply_cache_usd": _dollars(cost.reply_cache_usd),
        "flex_calls": cost.flex_calls,
        "call_p50_seconds": cost.p50_s,
        "call_p95_seconds": cost.p95_s,
    }


def _dollars(usd: float | None) -> float | None:
    return None if usd is None else float(f"{usd:.6g}")

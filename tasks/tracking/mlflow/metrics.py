"""A report as MLflow metrics: names, values and steps."""

from collections.abc import Iterator
from dataclasses import dataclass

from tasks.scoring.report import Cost, Ratio, Report, Value


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

    Args:
        report: what the evaluation found.
        seconds: wall time of the evaluation.
    """
    found = [
        _ratio("ex", report.ex),
        *(_ratio(f"ex_{rule}", ratio) for rule, ratio in report.rules.items()),
        Measure("ex_correct", float(report.ex.correct)),
        Measure("ex_total", float(report.ex.total)),
        *(_ratio(f"ex_by_difficulty/{grade}", ratio) for grade, ratio in report.by_difficulty.items()),
        *_stages(report),
        *_linking(report),
        *_counts(report),
        *_registered(report),
        *_usage(report.cost, "usage"),
        *(
            measure
            for label, cost in report.stage_cost.items()
            for measure in _usage(cost, f"usage_by_stage/{label}")
        ),
        Measure("usage/seconds", seconds) if seconds is not None else None,
    ]
    return tuple(measure for measure in found if measure is not None)


def _ratio(name: str, ratio: Ratio, step: int = 0) -> Measure | None:
    """Six decimals, which MLflow's table shows in full; the exact share is in `ex_correct` and `ex_total`."""
    return None if ratio.value is None else Measure(name, round(float(ratio.value), 6), step)


def _stages(report: Report) -> Iterator[Measure | None]:
    for number, stage in enumerate(report.stages, start=1):
        yield _ratio("ex_by_stage", stage.ex, number)
        yield _ratio(f"stage_ex/{stage.name}", stage.ex)
        if stage.fixed is not None:
            yield Measure(f"stage_fixed/{stage.name}", float(stage.fixed))
        if stage.broken is not None:
            yield Measure(f"stage_broken/{stage.name}", float(stage.broken))


def _linking(report: Report) -> Iterator[Measure | None]:
    for link in report.linking:
        prefix = f"linking/{link.name}"
        yield _ratio(f"{prefix}/nsr", link.nsr)
        yield _ratio(f"{prefix}/strict_recall", link.strict_recall)
        yield _ratio(f"{prefix}/precision", link.precision)
        yield Measure(f"{prefix}/avg_tables", link.avg_tables)
        yield Measure(f"{prefix}/avg_columns", link.avg_columns)
        if link.reduction is not None:
            yield Measure(f"{prefix}/reduction", link.reduction)


def _registered(report: Report) -> Iterator[Measure | None]:
    """Yield what the registered metrics found: a metric's value under its name, further ones under theirs."""
    for name, found in report.measurements.items():
        if found.value is not None:
            yield _measure(name, found.value)
        for further, value in found.further.items():
            yield _measure(further, value)
        for stepped, values in found.series.items():
            for step, value in enumerate(values, start=1):
                yield _measure(stepped, value, step)


def _measure(name: str, value: Value, step: int = 0) -> Measure | None:
    return _ratio(name, value, step) if isinstance(value, Ratio) else Measure(name, float(value), step)


def _counts(report: Report) -> Iterator[Measure]:
    yield Measure("questions/selected", float(report.questions))
    yield Measure("questions/scored", float(report.scored))
    yield Measure("questions/answered", float(report.answered))
    yield Measure("questions/failed", float(sum(report.failures.values())))
    yield Measure("questions/mendable", float(report.mendable))
    yield Measure("questions/database_missing", float(sum(report.missing_databases.values())))
    yield Measure("questions/gold_fault", float(len(report.gold_faults)))
    for kind, count in report.failures.items():
        yield Measure(f"failures/{kind}", float(count))


def _usage(cost: Cost, prefix: str) -> Iterator[Measure]:
    known: dict[str, float | None] = {
        "calls": cost.calls,
        "cached_calls": cost.cached_calls,
        "retries": cost.retries,
        "input_tokens": cost.input_tokens,
        "cached_input_tokens": cost.cached_input_tokens,
        "output_tokens": cost.output_tokens,
        "reasoning_tokens": cost.reasoning_tokens,
        "cost_usd": None if cost.cost_usd is None else float(f"{cost.cost_usd:.6g}"),
        "call_p50_seconds": cost.p50_s,
        "call_p95_seconds": cost.p95_s,
    }
    for name, value in known.items():
        if value is not None:
            yield Measure(f"{prefix}/{name}", float(value))

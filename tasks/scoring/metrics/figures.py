"""The figures that DAC and SEA-SQL report of themselves, by name, where they took part."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from tasks.scoring.metric import METRICS, ScoredRun, metric
from tasks.scoring.papers.dac import DacStatistics, SqlParts, dac_statistics
from tasks.scoring.papers.sea_sql import SeaStatistics, sea_statistics
from tasks.scoring.report import Measurement, Ratio, Value
from tasks.tables import TextTable
from tasks.wording import counts, percent

HEADLINE = {
    "dac/linking_tables/f1": "DAC: tables linked, F1",
    "dac/linking_columns/f1": "columns linked, F1",
    "dac/parsed_skeleton": "skeletons parsed right",
    "sea/execution_adjustment/failing_before": "SEA-SQL: SQL that failed to execute, before",
    "sea/execution_adjustment/failing_after": "after adjustment",
}
"""The figures of every summary; `--details` has all."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        name: `system/what`, e.g. "dac/linking_columns/recall".
        value: a share with its numerator and denominator, a count, or a number that is neither.
    """

    name: str
    value: Value


@METRICS.register("figures")
@metric("What the systems report of themselves", better=None, order=40)
def figures(run: ScoredRun) -> Measurement:
    """Report DAC's and SEA-SQL's own figures."""
    found = figures_of(
        dac_statistics(run.report.rows, run.rule, run.schemas), sea_statistics(run.report.rows, run.rule)
    )
    return Measurement(
        further={one.name: one.value for one in found},
        data={
            one.name: one.value.as_object() if isinstance(one.value, Ratio) else one.value for one in found
        },
        lines=tuple(_lines({one.name: one.value for one in found})),
        tables=(_table(found),) if found else (),
    )


def _lines(found: Mapping[str, Value]) -> Iterator[str]:
    """Yield a line per system."""
    for system in ("dac/", "sea/"):
        parts = [
            f"{text} {counts(value) if isinstance(value, Ratio) else f'{value:.2f}'}"
            for name, text in HEADLINE.items()
            if name.startswith(system) and (value := found.get(name)) is not None
        ]
        if parts:
            yield ", ".join(parts)


def _table(found: Sequence[Figure]) -> TextTable:
    def cells(value: Value) -> tuple[str, str]:
        if isinstance(value, Ratio):
            return percent(value), counts(value)
        return ("", f"{value:,}") if isinstance(value, int) else (f"{value:.3f}", "")

    return TextTable(
        "What the systems report of themselves",
        ("figure", "value", "questions"),
        tuple((one.name, *cells(one.value)) for one in found),
    )


def figures_of(dac: DacStatistics | None, sea: SeaStatistics | None) -> tuple[Figure, ...]:
    """Return the figures of the systems that took part; what does not apply is absent."""
    return (*(_dac(dac) if dac else ()), *(_sea(sea) if sea else ()))


def _dac(found: DacStatistics) -> Iterator[Figure]:
    for name, score in (("tables", found.tables), ("columns", found.columns)):
        if score:
            yield Figure(f"dac/linking_{name}/precision", score.precision)
            yield Figure(f"dac/linking_{name}/recall", score.recall)
            if score.f1 is not None:
                yield Figure(f"dac/linking_{name}/f1", score.f1)
    if found.parsed_skeleton:
        yield Figure("dac/parsed_skeleton", found.parsed_skeleton)
    if found.right_of_right_subtasks:
        yield Figure("dac/right_of_right_subtasks", found.right_of_right_subtasks)
    yield from _parts("before", found.before)
    yield from _parts("after", found.after)
    for revision in found.revisions:
        yield Figure(f"dac/corrections/{revision.kind}_{revision.outcome}", revision.count)


def _parts(when: str, parts: SqlParts) -> Iterator[Figure]:
    yield Figure(f"dac/{when}/skeleton", parts.skeleton)
    yield Figure(f"dac/{when}/right_of_right_parts", parts.right_of_right_parts)
    for kind, count in asdict(parts.errors).items():
        yield Figure(f"dac/{when}/errors_{kind}", int(count))


def _sea(found: SeaStatistics) -> Iterator[Figure]:
    if found.elimination:
        for name, count in asdict(found.elimination).items():
            yield Figure(f"sea/bias_elimination/{name}", int(count))
    if found.adjustment:
        yield Figure("sea/execution_adjustment/failing_before", found.adjustment.failing_before)
        yield Figure("sea/execution_adjustment/failing_after", found.adjustment.failing_after)
        yield Figure("sea/execution_adjustment/adjusted", found.adjustment.adjusted)
        yield Figure("sea/execution_adjustment/fixed", found.adjustment.fixed)
        yield Figure("sea/execution_adjustment/broken", found.adjustment.broken)
        for one in found.adjustment.rounds:
            yield Figure(f"sea/execution_adjustment/rounds_{one.rounds}", one.questions)

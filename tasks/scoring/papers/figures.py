"""The figures that DAC and SEA-SQL report of themselves, by name: one list for the summary, the JSON and MLflow."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from tasks.scoring.papers.dac import DacStatistics, SqlParts
from tasks.scoring.papers.sea_sql import SeaStatistics
from tasks.scoring.report import Ratio


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure.

    Attributes:
        name: `system/what`, e.g. "dac/linking_columns/recall".
        value: a share with its numerator and denominator, a count, or a number that is neither.
    """

    name: str
    value: Ratio | int | float


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

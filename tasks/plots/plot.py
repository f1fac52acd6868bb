"""Draws a figure of runs by its kind."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tasks.core.errors import ConfigurationError, DataError
from tasks.plots.bars import causes, difficulty, stages
from tasks.plots.points import noise, pareto, trend, turns
from tasks.plots.style import Width
from tasks.tracking.repeats.noise import measure
from tasks.tracking.repeats.repeats import repeated_run, repeats_of
from tasks.tracking.run_record import RunRecord
from tasks.tracking.warehouse.run_names import find_run
from tasks.tracking.warehouse.runs import Warehouse

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[Sequence[RunRecord], Width], "Figure"]

OF_RUNS: Mapping[str, Draw] = {
    "stages": stages,
    "pareto": pareto,
    "trend": trend,
    "causes": causes,
    "difficulty": difficulty,
    "turns": turns,
}
"""Figures that are drawn from the records of runs alone."""
NOISE = "noise"
KINDS = (*OF_RUNS, NOISE)


def plot_records(records: Sequence[RunRecord], kind: str, width: Width = 1) -> "Figure":
    """Draw a figure of finished runs, other than one of noise.

    Raises:
        ConfigurationError: there is no such kind.
        DataError: the figure cannot be drawn of these runs.
    """
    _check(kind)
    if kind == NOISE:
        raise ConfigurationError("A figure of noise is drawn by `Crosscheck().plot(run, kind='noise')`.")
    for record in records:
        if record.accuracy is None:
            raise DataError(f"The run {record.run_id} is {record.status}: it has no score yet.")
    return OF_RUNS[kind](records, width)


def plot(warehouse: Warehouse, names: Sequence[str], kind: str, width: Width = 1) -> "Figure":
    """Draw a figure of the runs that a user names.

    Args:
        warehouse: where the runs are.
        names: what names a run: an id, the beginning of it, "latest", "latest~1".
        kind: one of `KINDS`. "noise" takes one run, that `crosscheck noise` has repeated.
        width: columns of a paper that the figure takes.

    Raises:
        ConfigurationError: there is no such kind.
        DataError: there is no such run, or the figure cannot be drawn of it.
    """
    _check(kind)
    if not names:
        raise ConfigurationError("Name at least one run.")
    known = warehouse.runs()
    if kind == NOISE:
        if len(names) != 1:
            raise ConfigurationError(
                f"A figure of noise is of one run and its repeats; {len(names)} runs were named."
            )
        parent = repeated_run(names[0], known).run_id
        repeats = [warehouse.read_run(each.run_id) for each in repeats_of(parent, known)]
        return noise(measure(warehouse.read_run(parent), repeats), width)
    records = [warehouse.read_run(find_run(name, known).run_id).record for name in names]
    return plot_records(records, kind, width)


def _check(kind: str) -> None:
    if kind not in KINDS:
        raise ConfigurationError(f'There is no figure "{kind}". Available: {", ".join(KINDS)}.')

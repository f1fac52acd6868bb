"""Flows of the public interface, each in a thread with an event loop of its own."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from flows.api.records import Run, Sweep
from flows.api.threads import in_thread
from flows.runtime.control import Control, Interrupted, Progress

if TYPE_CHECKING:
    from flows.rerun.plan import RerunPlan
    from flows.sweep.cells import SweepOptions
    from flows.sweep.plan import Cell
    from tasks.settings.evaluation import EvaluationSettings


def evaluate(settings: "EvaluationSettings", control: Control) -> Run:
    """Evaluate, in the present thread."""
    from flows.questions.launch import launched

    with launched(settings, control, flow="flows.evaluation.flow") as prefect:
        from flows.evaluation.flow import evaluation_flow

        return Run.of(prefect.loop.run(evaluation_flow(control, prefect.preparation)(settings)).value)


def rerun(plan: "RerunPlan", control: Control) -> Run:
    """Ask the planned questions again, in the present thread."""
    from flows.questions.launch import launched

    with launched(plan.settings, control, flow="flows.rerun.flow") as prefect:
        from flows.rerun.flow import rerun_flow

        return Run.of(prefect.loop.run(rerun_flow(plan, control, prefect.preparation)(plan.asked_for)).value)


def sweep(
    start: "SweepOptions | None",
    cells: Sequence["Cell"],
    shown: Callable[[str], AbstractContextManager[Progress]],
) -> Sweep:
    """Estimate every cell, and evaluate it; each step in a thread of its own.

    Args:
        start: how it begins; None: it is only estimated.
        cells: the cells, in order.
        shown: opens a display of progress, by what it shows.

    Raises:
        Interrupted: the user stopped it.
    """
    from flows.sweep.cells import CellResult, estimate_sweep, run_sweep
    from flows.sweep.cells import Sweep as Swept

    with shown("") as progress:
        estimates = in_thread(lambda: estimate_sweep(cells, progress))
    if start is None:
        return Sweep.of(Swept("", tuple(CellResult(*pair) for pair in zip(cells, estimates, strict=True))))
    controls = [Control()]  # takes an interrupt that comes before the first cell

    @contextmanager
    def opened(place: str) -> Iterator[Control]:
        if any(control.stop.is_set() for control in controls):
            raise Interrupted("Stopped. The same call continues; what was answered is not paid for again.")
        with shown(place) as progress:
            controls.append(Control(progress))
            yield controls[-1]

    return Sweep.of(in_thread(lambda: run_sweep(start, cells, estimates, opened), controls))

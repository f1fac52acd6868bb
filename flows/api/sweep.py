"""A sweep of the public interface: each step in a thread with an event loop of its own."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

from flows.api.records import Sweep
from flows.api.threads import in_thread
from flows.runtime.control import Control, Interrupted, Progress

if TYPE_CHECKING:
    from flows.sweep.cells import SweepOptions
    from flows.sweep.plan import Cell


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
    from flows.sweep.cells import estimate_sweep, run_sweep
    from flows.sweep.result import CellResult
    from flows.sweep.result import Sweep as Swept

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

"""Runs the cells of a sweep one after the other against one Prefect server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from flows.evaluation.run import run_evaluation
from flows.orchestration.server import LocalServer
from flows.questions.estimate import JsonFormats, Part, backbones_of, measure, priced
from flows.questions.preparation import prepare
from flows.runtime.control import Control, Interrupted, Progress
from flows.runtime.folder_use import watched
from flows.runtime.logs import logging_to
from flows.sweep.plan import Cell
from flows.sweep.result import CellResult, Sweep
from flows.sweep.standings import standings
from tasks.backbone.kinds.kind import kind_of
from tasks.backbone.pricing import Budget
from tasks.core.errors import CrosscheckError
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.cost import Estimate
from tasks.settings.home import Home
from tasks.tracking.mlflow.experiment import show_sweep
from tasks.tracking.mlflow.store import find_store


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How a sweep begins."""

    sweep_id: str  # the tag `sweep` of its runs
    labels: Mapping[str, str] = field(default_factory=dict)  # further tags of its runs
    budget_usd: float | None = None  # limit on the cost; None without a limit


def estimate_sweep(cells: Sequence[Cell], progress: Progress) -> tuple[Estimate, ...]:
    """Estimate every cell, as `estimate_cells` does, in an event loop of its own."""
    return asyncio.run(estimate_cells(cells, progress))


async def estimate_cells(cells: Sequence[Cell], progress: Progress) -> tuple[Estimate, ...]:
    """Estimate every cell; cells that differ only in their backbone, but not in its reply formats, are measured once.

    Raises:
        CrosscheckError: a cell cannot start: files, questions or databases are missing.
    """
    measured: dict[str, tuple[Part, ...]] = {}
    found = []
    async with SqlWorkers() as workers:
        for cell in cells:
            formats = [JsonFormats.of(backbone) for backbone in backbones_of(cell.settings)]
            key = f"{cell.settings.pipeline.model_dump_json()} {formats}"
            preparation = prepare(cell.settings, progress, sends_requests=False)
            if key not in measured:
                progress.step(f"Estimating {cell.settings.pipeline.name}")
                measured[key] = await measure(preparation, workers)
            found.append(priced(preparation, measured[key]))
    return tuple(found)


def run_sweep(
    start: SweepOptions,
    cells: Sequence[Cell],
    estimates: Sequence[Estimate],
    opened: Callable[[str], AbstractContextManager[Control]],
) -> Sweep:
    """Evaluate every cell in order, each with a control of its own; the others continue if one fails.

    `opened` opens the control of a cell, by its place among all, with its display of progress.

    Raises:
        Interrupted: the user stopped it; finished cells and all paid replies are kept.
    """
    budget = None if start.budget_usd is None else Budget(start.budget_usd)
    home = Home(Path(cells[0].settings.home))
    done: list[CellResult] = []
    with watched(home), logging_to(home), LocalServer(home) as server:
        server.wait()
        for place, (cell, estimated) in enumerate(zip(cells, estimates, strict=True), 1):
            with opened(f"{place} of {len(cells)}") as control:
                control.progress.step(cell.name)
                control.tags = {**start.labels, "sweep": start.sweep_id} | (
                    {"sweep_set": ", ".join(cell.varied)} if cell.varied else {}
                )
                control.budget = budget
                done.append(_run_cell(cell, estimated, control, server))
    return Sweep(start.sweep_id, tuple(done), budget, standings(done), _page(home, start.sweep_id, done))


def _run_cell(cell: Cell, estimated: Estimate, control: Control, server: LocalServer) -> CellResult:
    budget = control.budget
    if budget and budget.spent_usd >= budget.limit_usd and kind_of(cell.settings.backbone).paid:
        budget.refused = True
        return CellResult(cell, estimated, None, "not begun: the budget is spent")
    try:
        evaluated = run_evaluation(cell.settings, control, server)
    except Interrupted:
        raise
    except CrosscheckError as error:  # a refused key of one backbone does not affect the others
        return CellResult(cell, estimated, None, str(error))
    return CellResult(cell, estimated, evaluated, evaluated.record.fatal)


def _page(home: Home, sweep_id: str, cells: Sequence[CellResult]) -> str:
    known = (done.evaluated.record.mlflow_run_id for done in cells if done.evaluated)
    run_id = next((one for one in known if one), None)
    return show_sweep(find_store(home), run_id, sweep_id) if run_id else ""

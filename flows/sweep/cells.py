"""Runs the cells of a sweep one after the other against one Prefect server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flows.evaluation.run import run_evaluation
from flows.orchestration.server import LocalServer
from flows.questions.estimate import JsonFormats, Part, backbones_of, measure, priced
from flows.questions.preparation import prepare
from flows.report.exit_codes import ExitCode
from flows.report.result import EvaluationResult
from flows.runtime.control import Control, Interrupted, Progress
from flows.runtime.folder_use import watched
from flows.runtime.logs import logging_to
from flows.sweep.plan import Cell
from tasks.backbone.kinds.kind import kind_of
from tasks.backbone.pricing import Budget
from tasks.core.errors import CrosscheckError
from tasks.core.wording import counted
from tasks.core.wording import p_value as in_words
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.cost import Estimate
from tasks.scoring.report import Report, is_right
from tasks.scoring.significance import LEVEL, compare_runs, holm
from tasks.settings.home import Home
from tasks.tracking.mlflow.experiment import show_sweep
from tasks.tracking.mlflow.store import find_store
from tasks.tracking.run_record import json_of


@dataclass(frozen=True)
class CellResult:
    """Result of one cell."""

    cell: Cell  # the cell
    estimated: Estimate  # its estimate
    evaluated: EvaluationResult | None = None  # its evaluation; None if it did not start or failed
    problem: str = ""  # error message if it was not evaluated in full, else ""


@dataclass(frozen=True)
class Sweep:
    """Result of a sweep.

    Attributes:
        id: the tag `sweep` of its runs.
        cells: in the order of the matrix.
        budget: limit on the cost; None without a limit.
        ranks: comparison of each cell with the best one, by the cell's name.
        page: address of its runs in MLflow; "" if there is none.
    """

    id: str
    cells: tuple[CellResult, ...]
    budget: Budget | None = None
    ranks: Mapping[str, str] = field(default_factory=dict)
    page: str = ""

    @property
    def exit_code(self) -> int:
        """0 when every cell is evaluated in full; 3 when the same command can complete some."""
        left = any(done.problem or (done.evaluated and done.evaluated.exit_code) for done in self.cells)
        return ExitCode.TRY_AGAIN if left else ExitCode.DONE

    def as_object(self) -> dict[str, Any]:
        """Return the sweep as plain JSON."""
        return {
            "sweep": self.id,
            "cells": [
                {
                    "backbone": done.cell.settings.backbone.name,
                    "pipeline": done.cell.settings.pipeline.name,
                    "set": list(done.cell.varied),
                    "estimate": asdict(done.estimated),
                    "run": json_of(done.evaluated.record) if done.evaluated else None,
                    "against_best": self.ranks.get(done.cell.name),
                    "problem": done.problem or None,
                }
                for done in self.cells
            ],
            "estimated_usd": estimated_usd([done.estimated for done in self.cells]),
            "budget_usd": self.budget.limit_usd if self.budget else None,
            "spent_usd": self.budget.spent_usd if self.budget else _spent(self.cells),
            "page": self.page or None,
            "stopped_by_budget": bool(self.budget and self.budget.refused),
        }


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
    return Sweep(start.sweep_id, tuple(done), budget, ranks(done), _page(home, start.sweep_id, done))


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


def ranks(cells: Sequence[CellResult]) -> dict[str, str]:
    """Compare each cell with the best one, and rank only significant differences.

    Exact McNemar tests paired by question, with p-values adjusted for their number (Holm). Cells that were not
    evaluated in full are left out. Those that used the gold SQL, those without a scored question, those that share
    none with the best, and those that are lower only by questions without an answer after retryable failures are not
    ranked.
    """
    unranked = {done.cell.name: f"not ranked: {why}" for done in cells if (why := done.cell.unranked)}
    right = {
        done.cell.name: _right(done.evaluated.report)
        for done in cells
        if done.evaluated and not done.problem and not done.cell.unranked
    }
    unranked |= {name: "not ranked: no question is scored" for name, found in right.items() if not found}
    scored = {name: found for name, found in right.items() if found}
    if len(scored) < 2:
        return unranked
    best = max(scored, key=lambda name: sum(scored[name].values()))
    apart = [name for name, found in scored.items() if not found.keys() & scored[best].keys()]
    unranked |= dict.fromkeys(apart, "not ranked: it shares no scored question with the best")
    others = [name for name in scored if name not in (best, *apart)]
    if not others:
        return unranked
    tests = [compare_runs(scored[name], scored[best]) for name in others]
    adjusted = holm([each.p_value for each in tests])
    close = sum(p_value >= LEVEL for p_value in adjusted)
    ranked = unranked | {best: f"highest; {close:,} of {counted(len(others), 'other cell')} inside the noise"}
    unanswered = {
        done.cell.name: {row.question.id for row in done.evaluated.report.rows if row.outcome.retryable}
        for done in cells
        if done.evaluated
    }
    for name, test, p_value in zip(others, tests, adjusted, strict=True):
        if p_value >= LEVEL:
            ranked[name] = f"inside the noise, p = {in_words(p_value)}"
        elif test.stands_without(unanswered[name]):
            ranked[name] = f"lower, p = {in_words(p_value)}"
        else:
            ranked[name] = f"not ranked: {counted(len(unanswered[name]), 'question')} without an answer"
    return ranked


def estimated_usd(estimates: Sequence[Estimate]) -> float | None:
    """Return the estimated cost of all cells; None if that of one is unknown."""
    known = [one.cost_usd for one in estimates if one.cost_usd is not None]
    return sum(known) if len(known) == len(estimates) else None


def _spent(cells: Sequence[CellResult]) -> float | None:
    costs = [
        0.0 if done.cell.free else done.evaluated.report.cost.cost_usd for done in cells if done.evaluated
    ]
    known = [one for one in costs if one is not None]
    return sum(known) if len(known) == len(costs) else None


def _right(report: Report) -> dict[str, bool]:
    rows = (row for row in report.rows if row.executable)
    return {row.question.id: is_right(row.final, report.rule) for row in rows}

"""Results of a sweep: its cells, and how they stand to each other."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from flows.report.exit_codes import ExitCode
from flows.report.result import EvaluationResult
from flows.sweep.plan import Cell
from tasks.backbone.pricing import Budget
from tasks.scoring.cost import Estimate
from tasks.tracking.run_record import json_of


@dataclass(frozen=True, slots=True)
class Standings:
    """Comparison of cells by exact McNemar tests on the same questions, by the cells' names."""

    against_best: Mapping[str, str] = field(default_factory=dict)  # in words; the best cell is named as such
    best: tuple[
        str, ...
    ] = ()  # the cells with as many right answers as the best one; () where none is ranked
    # cells that share a letter do not differ significantly; cells that are not ranked have none
    letters: Mapping[str, str] = field(default_factory=dict)


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
        standings: comparison of the cells with each other.
        page: address of its runs in MLflow; "" if there is none.
    """

    id: str
    cells: tuple[CellResult, ...]
    budget: Budget | None = None
    standings: Standings = field(default_factory=Standings)
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
                    "against_best": self.standings.against_best.get(done.cell.name),
                    "letters": self.standings.letters.get(done.cell.name),
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

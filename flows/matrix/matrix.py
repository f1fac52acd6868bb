"""A matrix: evaluations that one command makes one after the other, with one server and one budget."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from flows.evaluate.estimate import is_free
from flows.evaluate.preparation import Preparation, prepare
from flows.evaluate.run import run_evaluation
from flows.prefect.server import LocalServer
from flows.runtime.control import Control, Interrupted
from flows.runtime.folder_use import watched
from flows.runtime.signals import logging_to
from tasks.backbone.kinds.kind import kind_of
from tasks.backbone.pricing import Budget
from tasks.core.errors import BackboneError, CrosscheckError
from tasks.results.run_record import RunRecord
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.settings.pipeline import has_oracle


@dataclass(frozen=True)
class Cell:
    """One evaluation of a matrix."""

    settings: EvaluationSettings = field(repr=False)  # what is evaluated
    varied: tuple[str, ...] = ()  # the grid's settings, `pipeline.demonstrations.k=3`, of this cell
    tags: Mapping[str, str] = field(default_factory=dict)  # MLflow tags of its run

    @property
    def name(self) -> str:
        """Label of the settings, unique within a sweep."""
        return " | ".join((self.settings.label, *self.varied))

    @property
    def unranked(self) -> str:
        """Why it is not ranked; "" where it is."""
        if has_oracle(self.settings.pipeline):
            return "saw the gold"
        return "gold translated by sqlglot" if self.settings.benchmark.transpile_gold else ""

    @property
    def free(self) -> bool:
        """Whether all its calls are free."""
        return is_free(self.settings)


Opened = Callable[[str], AbstractContextManager[Control]]
"""Opens the control of an evaluation, with its display of progress, given its position: "2 of 5"."""


def run_cells(
    cells: Sequence[Cell],
    opened: Opened,
    budget: Budget | None = None,
    check: Callable[[Preparation], None] = lambda preparation: None,
) -> Generator[RunRecord | CrosscheckError]:
    """Evaluate cells in order; yield what each came to, or the error that ended it, which does not affect the others.

    Args:
        cells: of one working folder.
        opened: opens the control of a cell.
        budget: limit on the cost of all; None: there is none.
        check: raises where what was prepared for a cell must not be evaluated.
    """
    home = Home(Path(cells[0].settings.home))
    with watched(home), logging_to(home), LocalServer(home) as server:
        server.wait()
        for position, cell in enumerate(cells, 1):
            with opened(f"{position} of {len(cells)}") as control:
                control.progress.step(cell.name)
                control.tags, control.budget = cell.tags, budget
                try:
                    _demand_budget(cell, budget)
                    preparation = prepare(cell.settings, control.progress)
                    check(preparation)
                    yield run_evaluation(cell.settings, control, server, preparation)
                except Interrupted:
                    raise
                except CrosscheckError as error:
                    yield error


def _demand_budget(cell: Cell, budget: Budget | None) -> None:
    if budget and budget.spent_usd >= budget.limit_usd and kind_of(cell.settings.backbone).paid:
        budget.refused = True
        raise BackboneError("not begun: the budget is spent", transient=True)

"""A matrix: evaluations made one after the other within common limits, by a command or in a nightly run."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from flows.evaluate.estimate import is_free
from flows.evaluate.preparation import Preparation, prepare
from flows.evaluate.rerun_plan import RerunPlan
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
    # the re-run to make of these settings; None: a new run
    rerun: RerunPlan | None = field(default=None, repr=False)

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


@dataclass
class CellLimits:
    """Limits of all cells together: one budget, which the cells spend in their order."""

    total: Budget | None = None  # None: no limit

    def budget(self, left: int) -> Budget | None:
        """Return the budget of the next cell; `left` counts it and those after it."""
        return self.total

    def limited(self, settings: EvaluationSettings, left: int) -> EvaluationSettings:
        """Return the settings of the next cell within the limits; `left` is as in `budget`."""
        return settings


Check = Callable[[Preparation], None]
"""Raises where what was prepared for a cell must not be evaluated."""


@dataclass
class Turn:
    """The turn of one cell: its limits, and what its evaluation came to."""

    position: int  # of the cell, from 1
    cells: int  # number of cells
    limits: CellLimits
    # the record of the evaluation, or the error that ended it
    outcome: RunRecord | Exception = field(default_factory=lambda: CrosscheckError("not evaluated"))

    def prepare(self, cell: Cell, control: Control, check: Check) -> Preparation:
        """Prepare the evaluation of a cell, and refuse it before anything is paid: the budget is spent, or by `check`.

        The control gets the cell's tags and its budget.
        """
        left = self.cells - self.position + 1
        control.progress.step(cell.name)
        control.tags, control.budget = cell.tags, self.limits.budget(left)
        settings = self.limits.limited(cell.settings, left)
        _demand_budget(settings, control.budget)
        preparation = prepare(settings, control.progress)
        check(preparation)
        return preparation

    @contextmanager
    def recording(self, errors: type[Exception] = CrosscheckError) -> Iterator[None]:
        """Keep an error that ends the block as the outcome: it does not affect the other cells. An interrupt does."""
        try:
            yield
        except Interrupted:
            raise
        except errors as error:
            self.outcome = error

    def __str__(self) -> str:
        return f"{self.position} of {self.cells}"


def turns(cells: int, limits: CellLimits) -> Iterator[Turn]:
    """Give each of so many cells its turn, within limits of all of them."""
    return (Turn(position, cells, limits) for position in range(1, cells + 1))


Opened = Callable[[str], AbstractContextManager[Control]]
"""Opens the control of an evaluation, with its display of progress, given its position: "2 of 5"."""


def run_cells(
    cells: Sequence[Cell],
    opened: Opened,
    budget: Budget | None = None,
    check: Check = lambda preparation: None,
) -> Generator[RunRecord | Exception]:
    """Evaluate cells in order, with one server; yield what each came to, or the error that ended it.

    Args:
        cells: of one working folder.
        opened: opens the control of a cell.
        budget: limit on the cost of all; None: there is none.
        check: raises where what was prepared for a cell must not be evaluated.
    """
    home = Home(Path(cells[0].settings.home))
    with watched(home), logging_to(home), LocalServer(home) as server:
        server.wait()
        for cell, turn in zip(cells, turns(len(cells), CellLimits(budget)), strict=True):
            with opened(str(turn)) as control, turn.recording():
                preparation = turn.prepare(cell, control, check)
                turn.outcome = _run(cell, preparation, control, server)
            yield turn.outcome


def _run(cell: Cell, preparation: Preparation, control: Control, server: LocalServer) -> RunRecord:
    if cell.rerun is None:
        return run_evaluation(preparation.settings, control, server, preparation)
    from flows.evaluate.rerun import run_rerun  # imports Prefect

    return run_rerun(cell.rerun, control, server, preparation)


def _demand_budget(settings: EvaluationSettings, budget: Budget | None) -> None:
    if budget and budget.spent_usd >= budget.limit_usd and kind_of(settings.backbone).paid:
        budget.refused = True
        raise BackboneError(f"not begun: the budget is spent. {budget.continues}.", transient=True)

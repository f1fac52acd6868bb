"""A re-run of everything that a nightly run left without an answer, as cells of one matrix."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flows.evaluate.deployment import named_evaluations, settings_of
from flows.evaluate.forms import Matrix
from flows.evaluate.preparation import check_budget
from flows.evaluate.rerun import plan_rerun
from flows.matrix.matrix import Cell, Opened, run_cells
from tasks.backbone.budget import Budget
from tasks.core.errors import ExitCode
from tasks.core.wording import counted
from tasks.results.night import Night, NightEntry, all_nights, find_night
from tasks.results.run_record import NIGHT, RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.evaluation import RerunSettings
from tasks.settings.home import Home


@dataclass(frozen=True)
class NightPlan:
    """A re-run of a nightly run that is ready to start."""

    night: str
    cells: Mapping[str, Cell] = field(repr=False)  # the evaluations with questions to repeat, by their names

    @property
    def in_words(self) -> str:
        """The number of questions to repeat, of all runs and of each run."""
        if not self.cells:
            return f"Nightly run {self.night} has no question to repeat."
        plans = [cell.rerun for cell in self.cells.values() if cell.rerun]
        questions = counted(sum(len(plan.again) for plan in plans), "question")
        new = len(self.cells) - len(plans)
        others = f", and {counted(new, 'evaluation')} without a run" if new else ""
        lines = [f"Nightly run {self.night}: {questions} of {counted(len(plans), 'run')}{others}."]
        for name, cell in self.cells.items():
            what = "evaluated again; what was paid for is reused"
            if cell.rerun:
                what = f"{counted(len(cell.rerun.again), 'question')} of run {cell.rerun.parent.run_id}"
            lines.append(f"  {name}: {what}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Repeated:
    """What became of one evaluation of a nightly run."""

    name: str  # "benchmark | backbone | pipeline"
    parent: str | None  # id of the run whose questions were repeated; None: it had no run
    questions: int | None  # how many of its questions; None: all, in a run of their own
    run: RunRecord | None  # the new run; None where there is none
    problem: str | None  # why there is none

    @property
    def in_words(self) -> str:
        """The score and the run, or the problem."""
        result = f"{self.run.in_words}, run {self.run.run_id}" if self.run else self.problem
        return f"{self.name}: {result}"


@dataclass(frozen=True)
class NightRerun:
    """The re-run of a nightly run."""

    night: str
    evaluations: tuple[Repeated, ...]  # those of which something was left

    @property
    def exit_code(self) -> int:
        """0 when every question has an answer; 3 when some lack one, or there is no run."""
        codes = (
            evaluation.run.exit_code if evaluation.run else ExitCode.TRY_AGAIN
            for evaluation in self.evaluations
        )
        return max(codes, default=ExitCode.DONE)


def plan_night_rerun(
    reference: str, chosen: RerunSettings, labels: Mapping[str, str], budget_usd: float | None
) -> NightPlan:
    """Find what is left to ask of a nightly run, in the last run of each of its evaluations.

    `chosen` are the settings of every re-run, `labels` tags of the new runs.
    """
    home = Home(Path(chosen.home))
    night = find_night(reference, all_nights(home))
    runs = [run for run in Warehouse(home.warehouse).runs() if run.tags.get(NIGHT) == night.name]
    cells: dict[str, Cell] = {}
    for entry in night.entries:
        names = (entry.benchmark, entry.backbone, entry.pipeline)
        finished = [run for run in runs if run.is_finished]  # newest first
        run = next((run for run in finished if (run.benchmark, run.backbone, run.pipeline) == names), None)
        if run:
            plan = plan_rerun(chosen.model_copy(update={"run": run.run_id}))
            if plan.again:
                cells[entry.name] = Cell(plan.settings, tags=labels, rerun=plan)
        elif chosen.only in (None, "errors"):  # without a run, all of its questions lack an answer
            cells[entry.name] = _new_cell(entry, night, chosen, labels)
    check_budget([cell.settings for cell in cells.values()], budget_usd)
    return NightPlan(night.name, cells)


def _new_cell(entry: NightEntry, night: Night, chosen: RerunSettings, labels: Mapping[str, str]) -> Cell:
    """Return the cell of an evaluation that has no run, as the nightly run would make it."""
    forms = named_evaluations(Matrix(**night.matrix))
    form = forms[entry.benchmark, entry.backbone, entry.pipeline]
    settings = settings_of(form, epoch=night.name if night.new_replies else None)
    folders = {"home": chosen.home} if form.data else {"home": chosen.home, "data": chosen.data}
    return Cell(settings.model_copy(update=folders), tags={**labels, **form.as_tags, NIGHT: night.name})


def rerun_night(plan: NightPlan, opened: Opened, budget_usd: float | None) -> NightRerun:
    """Ask what a plan has left, one run after the other; a run that fails does not affect the others."""
    if not plan.cells:
        return NightRerun(plan.night, ())
    budget = None if budget_usd is None else Budget(budget_usd)
    outcomes = run_cells(list(plan.cells.values()), opened, budget)
    repeated = []
    for (name, cell), outcome in zip(plan.cells.items(), outcomes, strict=True):
        parent = cell.rerun.parent.run_id if cell.rerun else None
        questions = len(cell.rerun.again) if cell.rerun else None
        run, problem = (outcome, None) if isinstance(outcome, RunRecord) else (None, str(outcome))
        repeated.append(Repeated(name, parent, questions, run, problem))
    return NightRerun(plan.night, tuple(repeated))

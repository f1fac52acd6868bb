"""A noise measurement: the run, the repeats that are missing, their cost, and how they are made."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from flows.evaluate.preparation import Preparation, check_budget, check_candidates, settings_of_run
from flows.evaluate.rerun import check_data
from flows.matrix.matrix import Cell, Opened, run_cells
from flows.runtime.folders import Folders
from tasks.backbone.budget import Budget
from tasks.backbone.kind import check_backbone, kind_of
from tasks.core.errors import BackboneError, ConfigurationError, DataError, ExitCode
from tasks.core.wording import agreeing, counted
from tasks.results.noise import MIN_REPEATS, Noise, measure, repeated_run, repeats_of
from tasks.results.run_record import NOISE, REPEAT, JsonDocument, RunHeader, RunRecord, at
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home


@dataclass(frozen=True)
class RepeatsEstimate:
    """What repeats are expected to take; None: unknown."""

    repeats: int
    calls: int | None
    cost_usd: float | None


@dataclass(frozen=True)
class NoisePlan:
    """A noise measurement that is ready to start."""

    parent: RunRecord = field(repr=False)  # the run that is repeated
    settings: EvaluationSettings = field(repr=False)
    count: int  # number of repeats
    done: tuple[RunHeader, ...]  # repeats that are whole, of any number

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of the repeats that are still to be made."""
        done = {int(repeat.tags["repeat"]) for repeat in self.done}
        return tuple(number for number in range(1, self.count + 1) if number not in done)

    @property
    def expected(self) -> RepeatsEstimate:
        """What the missing repeats are expected to take: each what the run takes with an empty reply cache."""
        repeats = len(self.missing)
        cost = self.parent.cost
        usd = 0.0 if Cell(self.settings).free or not repeats else cost.from_scratch_usd
        calls = ((cost.calls or 0) + (cost.cached_calls or 0)) * repeats
        return RepeatsEstimate(repeats, calls, None if usd is None else usd * repeats)

    def cell(self, number: int, labels: Mapping[str, str]) -> Cell:
        """Return a repeat: the run's settings, with an epoch of its own, so that all replies are new."""
        epoch = f"noise of {self.parent.run_id}, repeat {number}"
        backbone = self.settings.backbone.model_copy(update={"epoch": epoch})
        tags = {**labels, NOISE: self.parent.run_id, REPEAT: str(number)}
        return Cell(self.settings.model_copy(update={"backbone": backbone}), (f"repeat {number}",), tags)


def plan_noise(reference: str, count: int, folders: Folders, *, budget_usd: float | None) -> NoisePlan:
    """Return which of `count` repeats of a run are missing; `reference` names the run, or one of its repeats."""
    warehouse = Warehouse(folders.home.warehouse)
    runs = warehouse.runs()
    header = repeated_run(reference, runs)
    if not header.is_finished:
        raise DataError(
            f"The run {header.run_id} is {header.status}: repeats are made of a run that ended. The command that began "
            "it completes it."
        )
    parent = warehouse.read_run(header.run_id)
    if "gold SQL" in (reason := parent.why_unranked):
        raise ConfigurationError(
            f"The run {header.run_id} {reason}: its noise says nothing about a run that did not. Name another run."
        )
    settings = settings_of_run(parent, (), data=str(folders.data), home=str(folders.home.path))
    if kind_of(settings.backbone).replays:
        raise ConfigurationError(
            f"The run {header.run_id} served a recording, which always returns the same replies: it has no noise. "
            "Name a run of a model."
        )
    check_backbone(settings.backbone)
    check_candidates(settings)
    check_budget([settings], budget_usd)
    return NoisePlan(parent, settings, count, repeats_of(header.run_id, runs))


@dataclass(frozen=True)
class MeasuredRepeats:
    """What a measurement came to."""

    plan: NoisePlan
    noise: Noise | None  # None where fewer than two repeats are whole
    problems: tuple[str, ...] = ()  # why repeats are missing, in sentences
    budget: Budget | None = field(default=None, repr=False)

    @property
    def exit_code(self) -> int:
        """0 when every repeat is whole; 3 when the same command can complete some."""
        return ExitCode.TRY_AGAIN if self.problems else ExitCode.DONE


class MeasuredDocument(JsonDocument):
    """A measurement as `crosscheck evaluate --repeats --json` prints it."""

    run_id: str = at("plan", "parent", "run_id")
    repeats_wanted: int = at("plan", "count")
    estimate: RepeatsEstimate = at("plan", "expected")
    problems: tuple[str, ...]
    noise: Noise | None


def make_repeats(
    plan: NoisePlan, opened: Opened, *, labels: Mapping[str, str], budget_usd: float | None
) -> MeasuredRepeats:
    """Make the missing repeats of a plan, and measure the noise of those that are complete."""
    budget = None if budget_usd is None else Budget(budget_usd)
    problems = _run_missing(plan, opened, labels, budget)
    warehouse = Warehouse(Home(Path(plan.settings.home)).warehouse)
    parent = plan.parent
    repeats = repeats_of(parent.run_id, warehouse.runs())[: plan.count]
    if len(repeats) < plan.count and not problems:
        problems.append(f"{len(repeats)} of {plan.count} repeats {agreeing('is', len(repeats))} whole.")
    runs = [warehouse.read_run(repeat.run_id) for repeat in repeats]
    noise = measure(parent, runs) if len(runs) >= MIN_REPEATS else None
    return MeasuredRepeats(plan, noise, tuple(problems), budget)


def _run_missing(
    plan: NoisePlan, opened: Opened, labels: Mapping[str, str], budget: Budget | None
) -> list[str]:
    """Make the missing repeats until one gets no result; return why some are not complete."""
    if not plan.missing:
        return []
    cells = [plan.cell(number, labels) for number in plan.missing]

    def check(preparation: Preparation) -> None:
        check_data(plan.parent, preparation.benchmark, preparation.databases)

    problems = []
    with closing(run_cells(cells, opened, budget, check)) as results:
        for number, outcome in zip(plan.missing, results, strict=False):
            if isinstance(outcome, BackboneError):
                problems.append(f"Repeat {number}: {outcome}")
                break
            if isinstance(outcome, Exception):
                raise outcome
            if outcome.fatal:
                problems.append(f"Repeat {number}: {outcome.fatal}")
                break
            if outcome.retryable:
                unanswered = counted(outcome.retryable, "question")
                problems.append(f"Repeat {number}: {unanswered} without an answer.")
    return problems

"""A matrix: evaluations made one after the other within common limits, and a sweep, which compares them."""

import datetime
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING

from flows.evaluate.estimate import JsonFormats, Part, measure, priced
from flows.evaluate.preparation import Preparation, backbones_of, check_candidates, is_free, prepare
from flows.evaluate.rerun import RerunPlan, run_rerun
from flows.evaluate.run import run_evaluation
from flows.prefect.server import LocalServer
from flows.runtime.control import Control, Interrupted, Progress
from flows.runtime.folder_use import store_for_links, watched
from flows.runtime.output import frame
from flows.runtime.signals import logging_to
from tasks.backbone.budget import Budget
from tasks.backbone.kind import check_backbone
from tasks.core.errors import ConfigurationError, CrosscheckError, ExitCode
from tasks.core.outcome import STANDARD
from tasks.core.wording import counted, counts, percent
from tasks.core.wording import p_value as in_words
from tasks.database.sandbox.workers import SqlWorkers
from tasks.results.build_record import new_run_id
from tasks.results.mlflow.experiment import show_sweep
from tasks.results.mlflow.store import find_store
from tasks.results.run_record import JsonDocument, RunRecord, TextOrNull, at
from tasks.scoring.cost import Estimate, total
from tasks.scoring.letters import letters_of, pairwise_p_values
from tasks.scoring.significance import LEVEL, compare_runs
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.settings.load import parse_override
from tasks.settings.pipeline import has_oracle

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Cell:
    """One evaluation of a matrix."""

    settings: EvaluationSettings = field(repr=False)  # what is evaluated
    varied: tuple[str, ...] = ()  # the grid's settings, `pipeline.demonstrations.k=3`, of this cell
    tags: Mapping[str, str] = field(default_factory=dict)  # MLflow tags of its run
    rerun: RerunPlan | None = field(default=None, repr=False)  # None: a new run

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


Check = Callable[[Preparation], None]
"""Raises where what was prepared for a cell must not be evaluated."""


@dataclass
class CellLimits:
    """Limits of all cells together."""

    total: Budget | None = None
    finish_by: datetime.datetime | None = None  # when the last cell must end
    # budgets of the cells so far, each an equal share of what is left; None: the cells spend one budget in their order
    shares: list[Budget] | None = None

    def budget(self, left: int) -> Budget | None:
        """Return the budget of the next cell; `left` counts it and those after it."""
        if self.total is None or self.shares is None:
            return self.total
        unspent = self.total.limit_usd - sum(share.spent_usd for share in self.shares)
        unknown = next((share.unknown for share in self.shares if share.unknown), "")
        self.shares.append(Budget(unspent / left, self.total.continues, unknown=unknown))
        return self.shares[-1]

    def limited(self, settings: EvaluationSettings, left: int) -> EvaluationSettings:
        """Return the settings of the next cell with its share of the time; `left` is as in `budget`."""
        if self.finish_by is None or settings.backbone.tier == STANDARD:
            return settings
        now = datetime.datetime.now(datetime.UTC)
        end = now + max(datetime.timedelta(), self.finish_by - now) / left
        backbone = settings.backbone.model_copy(update={"finish_by": end.isoformat(timespec="seconds")})
        return settings.model_copy(update={"backbone": backbone})

    def prepare(self, cell: Cell, left: int, control: Control, check: Check) -> Preparation:
        """Prepare the evaluation of a cell; raise what `check` raises, before paid calls.

        The control gets the cell's tags and its budget; `left` counts the cell and those after it.
        """
        control.progress.step(cell.name)
        control.tags = cell.tags
        control.budget = self.budget(left)
        settings = self.limited(cell.settings, left)
        preparation = prepare(settings, control.progress)
        check(preparation)
        return preparation


Opened = Callable[[str], AbstractContextManager[Control]]
"""Opens the control of an evaluation, with its display of progress, given its position: "2 of 5"."""


def run_cells(
    cells: Sequence[Cell], opened: Opened, budget: Budget | None, check: Check = lambda preparation: None
) -> Generator[RunRecord | Exception]:
    """Evaluate cells of one working folder in order, with one server, within a budget for all.

    Yield the record of each, or the error that ended it. `opened` provides the control of a cell.
    """
    home = Home(Path(cells[0].settings.home))
    with watched(home), logging_to(home), LocalServer(home) as server:
        server.wait()
        limits = CellLimits(budget)
        for index, cell in enumerate(cells):
            outcome: RunRecord | Exception
            with opened(f"{index + 1} of {len(cells)}") as control:
                try:
                    preparation = limits.prepare(cell, len(cells) - index, control, check)
                    if cell.rerun is None:
                        outcome = run_evaluation(preparation.settings, control, server, preparation)
                    else:
                        outcome = run_rerun(cell.rerun, control, server, preparation)
                except Interrupted:
                    raise
                except CrosscheckError as error:  # it does not affect the other cells
                    outcome = error
            yield outcome


def plan_sweep(
    settings_of: Callable[[str, str, tuple[str, ...]], EvaluationSettings],
    backbones: Sequence[str],
    pipelines: Sequence[str],
    grid: Sequence[Sequence[str]],
    *,
    sends_requests: bool,
) -> tuple[Cell, ...]:
    """Return the cells: for each backbone, for each pipeline, every combination of the grid's settings."""
    keys = [values[0].partition("=")[0] for values in grid if values]
    repeated = next((key for key in keys if keys.count(key) > 1), None)
    if repeated:
        raise ConfigurationError(
            f"--grid {repeated}: this key occurs twice. Write all its values after one --grid."
        )
    for setting in chain.from_iterable(grid):
        kind, _, _ = parse_override(setting)
        if kind not in ("backbone", "pipeline"):
            raise ConfigurationError(
                f"--grid {setting}: {kind}.* is the same for a whole sweep; --set changes it for all of it."
            )
    if not (backbones and pipelines and all(grid)):
        raise ConfigurationError("A sweep takes at least one backbone, pipeline, and value of each setting.")
    cells = []
    for backbone, pipeline, varied in product(backbones, pipelines, product(*grid)):
        try:
            tags = {"sweep_set": ", ".join(varied)} if varied else {}
            cells.append(Cell(settings_of(backbone, pipeline, varied), varied, tags))
        except ConfigurationError as error:
            raise ConfigurationError(f"{backbone} with {pipeline}: {error}") from None
    names = [cell.name for cell in cells]
    duplicate = next((name for name in names if names.count(name) > 1), None)
    if duplicate:
        raise ConfigurationError(
            f'The sweep has "{duplicate}" twice. Name every backbone, pipeline and value once.'
        )
    for cell in cells:
        check_backbone(cell.settings.backbone, sends_requests=sends_requests)
        check_candidates(cell.settings, sends_requests=sends_requests)
    return tuple(cells)


def read_names(text: str, option: str) -> tuple[str, ...]:
    """Split a comma-separated list of names."""
    parts = tuple(part.strip() for part in text.split(",") if part.strip())
    if not parts:
        raise ConfigurationError(f"{option} {text!r}: name at least one.")
    return parts


def read_grid(texts: Sequence[str]) -> list[list[str]]:
    """Split `pipeline.demonstrations.k=0,1,3` into its settings, `pipeline.demonstrations.k=0` and so on."""
    axes = []
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not values.strip():
            raise ConfigurationError(
                f"--grid {text}: write key=value,value, for example --grid pipeline.demonstrations.k=0,1,3."
            )
        axes.append([f"{key.strip()}={value.strip()}" for value in values.split(",")])
    return axes


@dataclass(frozen=True, slots=True)
class Standings:
    """Comparison of cells by exact McNemar tests on the same questions, by the cells' names."""

    against_best: Mapping[str, str] = field(default_factory=dict)  # in words; the best cell is named as such
    best: tuple[str, ...] = ()  # those with as many right answers as the best one
    # those that share one do not differ significantly
    letters: Mapping[str, str] = field(default_factory=dict)
    tests: int = 0  # number of pairs that were tested, for which p is adjusted


@dataclass(frozen=True)
class CellResult:
    """Result of one cell."""

    cell: Cell
    estimated: Estimate
    evaluated: RunRecord | None = None  # None if it did not start or failed
    problem: str = ""  # why it was not evaluated in full; "" if it was


@dataclass(frozen=True, repr=False)
class Sweep:
    """Result of a sweep."""

    id: str  # the tag `sweep` of its runs
    cells: tuple[CellResult, ...]  # in the order of the matrix
    budget: Budget | None = None
    standings: Standings = field(default_factory=Standings)
    page: str = ""  # address of its runs in MLflow; "" if there is none
    served: bool = False  # whether MLflow's server is running already

    def __str__(self) -> str:
        """A sentence about the best of the ranked combinations, or the number of combinations if none is ranked."""
        combinations = counted(len(self.cells), "combination")
        if not any(self.runs):
            return f"{combinations}, none of them evaluated"
        best = [result for result in self.cells if result.cell.name in self.standings.best]
        if not best or best[0].evaluated is None:
            return f"{combinations}, {'none of them ranked' if len(self.cells) > 1 else 'nothing to compare it with'}"
        record = best[0].evaluated
        others = len(best) - 1
        others_and_verb = f" and {counted(others, 'other')} are" if others else " is"
        score = f"{percent(record.score)} ({counts(record.score)}, rule {record.rule})"
        evaluated = sum(run is not None for run in self.runs)
        compared_with = combinations
        if evaluated < len(self.cells):
            compared_with = f"the {evaluated} evaluated of {combinations}"
        return (
            f"{record.benchmark}: {best[0].cell.name}{others_and_verb} best of {compared_with} with {score}"
        )

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_html_(self) -> str:
        return str(self.table.to_html(index=False))

    @property
    def runs(self) -> tuple[RunRecord | None, ...]:
        """The cells' runs; None where a cell has none."""
        return tuple(result.evaluated for result in self.cells)

    @property
    def table(self) -> "DataFrame":
        """One row per cell: its score with the interval, the test against the best cell, cost, estimate and problem."""
        rows = [
            {
                "backbone": cell.backbone,
                "pipeline": cell.pipeline,
                "settings": ", ".join(cell.set),
                **{name: getattr(cell.run, name, None) for name in ("correct", "total", "ex", "low", "high")},
                "against_best": cell.against_best,
                "cost_usd": cell.run.cost.cost_usd if cell.run else None,
                "estimated_calls": cell.estimate.calls,
                "estimated_usd": cell.estimate.cost_usd,
                "run_id": cell.run.run_id if cell.run else None,
                "problem": cell.problem,
            }
            for cell in self.document.cells
        ]
        return frame(rows, columns=list(rows[0]))  # a sweep has at least one cell

    @property
    def exit_code(self) -> int:
        """0 when every cell is whole; 3 when the same command can complete some; else that of its cells."""
        if any(result.problem for result in self.cells):
            return ExitCode.TRY_AGAIN
        return max((run.exit_code for run in self.runs if run), default=ExitCode.DONE)

    @property
    def estimated_usd(self) -> float | None:
        """Estimated cost of all cells; None if that of one is unknown."""
        return estimated_usd([result.estimated for result in self.cells])

    @property
    def spent_usd(self) -> float | None:
        """Cost of the paid calls; None if that of any is unknown or estimated."""
        if self.budget:
            return self.budget.known_usd
        costs = [
            0.0 if result.cell.free else result.evaluated.cost.cost_usd
            for result in self.cells
            if result.evaluated
        ]
        return total(costs)

    @property
    def document(self) -> "SweepDocument":
        """The object that `crosscheck sweep --json` prints."""
        against_best, letters = self.standings.against_best, self.standings.letters
        names = [result.cell.name for result in self.cells]
        document = SweepDocument.model_validate(self)
        cells = [
            cell.model_copy(update={"against_best": against_best.get(name), "letters": letters.get(name)})
            for name, cell in zip(names, document.cells, strict=True)
        ]
        return document.model_copy(update={"cells": tuple(cells)})


class CellDocument(JsonDocument):
    """A cell of a sweep."""

    backbone: str = at("cell", "settings", "backbone", "name")
    pipeline: str = at("cell", "settings", "pipeline", "name")
    set: tuple[str, ...] = at("cell", "varied")
    estimate: Estimate = at("estimated")
    run: RunRecord | None = at("evaluated")
    against_best: str | None = None
    letters: str | None = None
    problem: TextOrNull


class SweepDocument(JsonDocument):
    """A sweep as `crosscheck sweep --json` prints it."""

    sweep: str = at("id")
    cells: tuple[CellDocument, ...]
    estimated_usd: float | None
    budget_usd: float | None = at("budget", "limit_usd", default=None)
    spent_usd: float | None
    page: TextOrNull
    stopped_by_budget: bool = at("budget", "refused", default=False)


def estimated_usd(estimates: Sequence[Estimate]) -> float | None:
    """Return the estimated cost of all cells; None if that of one is unknown."""
    return total([estimate.cost_usd for estimate in estimates])


Right = Mapping[str, Mapping[str, bool]]
"""By cell and question, whether the answer is right."""


def standings(cells: Sequence[CellResult]) -> Standings:
    """Compare each cell with the best one, and all of them with each other.

    All pairs of ranked cells are tested, and p is adjusted for their number (Holm). Cells that were not evaluated in
    full are left out, and those that cannot be compared with the best are not ranked, with the reason.
    """
    unranked = {result.cell.name: f"not ranked: {why}" for result in cells if (why := result.cell.unranked)}
    right = {
        result.cell.name: result.evaluated.rights(result.evaluated.rule)
        for result in cells
        if result.evaluated and not result.problem and not result.cell.unranked
    }
    unranked |= {
        name: "not ranked: no question is scored" for name, verdicts in right.items() if not verdicts
    }
    scored = {name: verdicts for name, verdicts in right.items() if verdicts}
    if len(scored) < 2:
        return Standings(unranked)
    best = max(scored, key=lambda name: sum(scored[name].values()))
    unpaired = [name for name, verdicts in scored.items() if not verdicts.keys() & scored[best].keys()]
    unranked |= dict.fromkeys(unpaired, "not ranked: it shares no scored question with the best")
    ranked = {name: verdicts for name, verdicts in scored.items() if name not in unpaired}
    if len(ranked) < 2:
        return Standings(unranked)
    retryable = {
        result.cell.name: {id_ for id_, row in result.evaluated.scored_rows.items() if row.outcome.retryable}
        for result in cells
        if result.evaluated
    }
    p_values = pairwise_p_values(ranked)
    against_best = unranked | _against(best, ranked, p_values, retryable)
    comparable = [name for name in ranked if "not ranked" not in against_best[name]]
    best_names = tuple(name for name in comparable if _counts(ranked[name]) == _counts(ranked[best]))
    best_first = sorted(comparable, key=lambda name: -sum(ranked[name].values()))
    return Standings(against_best, best_names, letters_of(best_first, p_values), len(p_values))


def _against(
    best: str, ranked: Right, p_values: Mapping[frozenset[str], float], retryable: Mapping[str, set[str]]
) -> dict[str, str]:
    """Compare cells with the best one, in words, by the name of the cell.

    `p_values` are adjusted, by pair of names; `retryable` has the ids of each cell's questions without an answer.
    """
    adjusted = {name: p_values[frozenset((best, name))] for name in ranked if name != best}
    tied = sum(p_value >= LEVEL for p_value in adjusted.values())
    words = {best: f"best; {tied:,} of {counted(len(adjusted), 'other')} statistically tied"}
    for name, p_value in adjusted.items():
        if p_value >= LEVEL:
            words[name] = f"statistically tied, p = {in_words(p_value)}"
        elif compare_runs(ranked[name], ranked[best]).stands_without(retryable[name]):
            words[name] = f"lower, p = {in_words(p_value)}"
        else:  # its answers to these questions could make it as good as the best
            words[name] = f"not ranked: {counted(len(retryable[name]), 'question')} without an answer"
    return words


def _counts(verdicts: Mapping[str, bool]) -> tuple[int, int]:
    """Return how many answers are right, and how many are scored."""
    return sum(verdicts.values()), len(verdicts)


async def estimate_cells(cells: Sequence[Cell], progress: Progress) -> tuple[Estimate, ...]:
    """Estimate every cell; cells that differ only in their backbone, not in its reply formats, are measured once."""
    measured: dict[str, tuple[Part, ...]] = {}
    estimates = []
    async with SqlWorkers() as workers:
        for cell in cells:
            formats = [JsonFormats.of(backbone) for backbone in backbones_of(cell.settings)]
            key = f"{cell.settings.pipeline.model_dump_json()} {formats}"
            preparation = prepare(cell.settings, progress, sends_requests=False)
            if key not in measured:
                progress.step(f"Estimating {cell.settings.pipeline.name}")
                measured[key] = await measure(preparation, workers)
            estimates.append(priced(preparation, measured[key]))
    return tuple(estimates)


def run_sweep(
    labels: Mapping[str, str],
    budget_usd: float | None,
    cells: Sequence[Cell],
    estimates: Sequence[Estimate],
    opened: Opened,
) -> Sweep:
    """Evaluate every cell in order within a budget for all; the others continue if one fails."""
    sweep_id = new_run_id()
    budget = None if budget_usd is None else Budget(budget_usd)
    tagged = [replace(cell, tags={**labels, "sweep": sweep_id, **cell.tags}) for cell in cells]
    results = []
    for cell, estimated, outcome in zip(cells, estimates, run_cells(tagged, opened, budget), strict=True):
        if isinstance(outcome, RunRecord):
            results.append(CellResult(cell, estimated, outcome, outcome.fatal))
        else:
            results.append(CellResult(cell, estimated, None, str(outcome)))
    home = Home(Path(cells[0].settings.home))
    logged = [run_id for result in results if result.evaluated and (run_id := result.evaluated.mlflow_run_id)]
    page = show_sweep(find_store(home), logged[0], sweep_id) if logged else ""
    return Sweep(sweep_id, tuple(results), budget, standings(results), page, store_for_links(home).served)

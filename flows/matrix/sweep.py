"""A sweep: its matrix of backbones, pipelines and the grid's settings, its runs, and how they stand to each other."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from flows.evaluate.backbones import check_candidates
from flows.evaluate.estimate import JsonFormats, Part, backbones_of, measure, priced
from flows.evaluate.preparation import prepare
from flows.matrix.matrix import Cell, Opened, run_cells
from flows.runtime.control import Progress
from flows.runtime.running_servers import shown_store
from tasks.backbone.kinds.kind import check_backbone
from tasks.backbone.pricing import Budget
from tasks.core.errors import ConfigurationError, ExitCode
from tasks.core.wording import counted
from tasks.core.wording import p_value as in_words
from tasks.database.sandbox.workers import SqlWorkers
from tasks.results.mlflow.experiment import show_sweep
from tasks.results.mlflow.store import find_store
from tasks.results.run_record import JsonDocument, RunRecord, TextOrNull, at
from tasks.scoring.cost import Estimate
from tasks.scoring.significance import LEVEL, compare_runs
from tasks.scoring.statistics.letters import letters_of, pairwise_p_values
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home
from tasks.settings.load import parse_override


def plan_sweep(
    settings_of: Callable[[str, str, tuple[str, ...]], EvaluationSettings],
    backbones: Sequence[str],
    pipelines: Sequence[str],
    grid: Sequence[Sequence[str]] = (),
    *,
    sends_requests: bool = True,
) -> tuple[Cell, ...]:
    """Read the settings of every cell, pipelines varying fastest but for the grid: `pipeline.demonstrations.k=0,1,3`.

    `settings_of` returns the settings of a backbone, a pipeline and the grid's settings of a cell;
    `sends_requests` is as in `check_backbone`.
    """
    _check_grid(grid)
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
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise ConfigurationError(
            f'The sweep has "{twice}" twice. Name every backbone, pipeline and value once.'
        )
    for cell in cells:
        check_backbone(cell.settings.backbone, sends_requests=sends_requests)
        check_candidates(cell.settings, sends_requests=sends_requests)
    return tuple(cells)


def names(text: str, option: str) -> tuple[str, ...]:
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


def _check_grid(grid: Sequence[Sequence[str]]) -> None:
    for setting in (setting for axis in grid for setting in axis):
        kind, _, _ = parse_override(setting)
        if kind not in ("backbone", "pipeline"):
            raise ConfigurationError(
                f"--grid {setting}: {kind}.* is the same for a whole sweep; --set changes it for all of it."
            )


@dataclass(frozen=True, slots=True)
class Standings:
    """Comparison of cells by exact McNemar tests on the same questions, by the cells' names."""

    against_best: Mapping[str, str] = field(default_factory=dict)  # in words; the best cell is named as such
    # the cells with as many right answers as the best one; () where none is ranked
    best: tuple[str, ...] = ()
    # cells that share a letter do not differ significantly; cells that are not ranked have none
    letters: Mapping[str, str] = field(default_factory=dict)
    tests: int = 0  # number of pairs that were tested, for which p is adjusted


@dataclass(frozen=True)
class CellResult:
    """Result of one cell."""

    cell: Cell  # the cell
    estimated: Estimate  # its estimate
    evaluated: RunRecord | None = None  # its evaluation; None if it did not start or failed
    problem: str = ""  # error message if it was not evaluated in full, else ""

    @classmethod
    def of(cls, cell: Cell, estimated: Estimate, outcome: RunRecord | Exception) -> "CellResult":
        """Return the result of what a cell came to, as `run_cells` yields it."""
        if isinstance(outcome, RunRecord):
            return cls(cell, estimated, outcome, outcome.fatal)
        return cls(cell, estimated, None, str(outcome))


@dataclass(frozen=True)
class Sweep:
    """Result of a sweep.

    Attributes:
        id: the tag `sweep` of its runs.
        cells: in the order of the matrix.
        budget: limit on the cost; None without a limit.
        standings: comparison of the cells with each other.
        page: address of its runs in MLflow; "" if there is none.
        served: whether MLflow's server is running already.
    """

    id: str
    cells: tuple[CellResult, ...]
    budget: Budget | None = None
    standings: Standings = field(default_factory=Standings)
    page: str = ""
    served: bool = False

    @property
    def exit_code(self) -> int:
        """0 when every cell is whole; 3 when the same command can complete some; else that of its cells."""
        if any(done.problem for done in self.cells):
            return ExitCode.TRY_AGAIN
        return max((done.evaluated.exit_code for done in self.cells if done.evaluated), default=ExitCode.DONE)

    @property
    def estimated_usd(self) -> float | None:
        """Estimated cost of all cells; None if that of one is unknown."""
        return estimated_usd([done.estimated for done in self.cells])

    @property
    def spent_usd(self) -> float | None:
        """Cost of the paid calls; None if unknown."""
        return self.budget.spent_usd if self.budget else _spent(self.cells)

    @property
    def document(self) -> "SweepDocument":
        """The object that `crosscheck sweep --json` prints."""
        against_best, letters = self.standings.against_best, self.standings.letters
        names = [done.cell.name for done in self.cells]
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
    known = [estimate.cost_usd for estimate in estimates if estimate.cost_usd is not None]
    return sum(known) if len(known) == len(estimates) else None


def _spent(cells: Sequence[CellResult]) -> float | None:
    costs = [0.0 if done.cell.free else done.evaluated.cost.cost_usd for done in cells if done.evaluated]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


Right = Mapping[str, Mapping[str, bool]]
"""By cell and question, whether the answer is right."""


def standings(cells: Sequence[CellResult]) -> Standings:
    """Compare each cell with the best one, and all of them with each other.

    All pairs of ranked cells are tested, and p is adjusted for their number (Holm). Cells that were not evaluated in
    full are left out. Those that used the gold SQL, those without a scored question, those that share none
    with the best, and those that are lower only by questions without an answer after retryable failures are not
    ranked.
    """
    unranked = {done.cell.name: f"not ranked: {why}" for done in cells if (why := done.cell.unranked)}
    right = {
        done.cell.name: done.evaluated.rights(done.evaluated.rule)
        for done in cells
        if done.evaluated and not done.problem and not done.cell.unranked
    }
    unranked |= {
        name: "not ranked: no question is scored" for name, verdicts in right.items() if not verdicts
    }
    scored = {name: verdicts for name, verdicts in right.items() if verdicts}
    if len(scored) < 2:
        return Standings(unranked)
    best = max(scored, key=lambda name: sum(scored[name].values()))
    apart = [name for name, verdicts in scored.items() if not verdicts.keys() & scored[best].keys()]
    unranked |= dict.fromkeys(apart, "not ranked: it shares no scored question with the best")
    ranked = {name: verdicts for name, verdicts in scored.items() if name not in apart}
    if len(ranked) < 2:
        return Standings(unranked)
    retryable = {
        done.cell.name: {row.question.id for row in done.evaluated.rows if row.outcome.retryable}
        for done in cells
        if done.evaluated
    }
    p_values = pairwise_p_values(ranked)
    against_best = unranked | _against(best, ranked, p_values, retryable)
    left = [name for name in ranked if "not ranked" not in against_best[name]]
    equal = tuple(name for name in left if _counts(ranked[name]) == _counts(ranked[best]))
    best_first = sorted(left, key=lambda name: -sum(ranked[name].values()))
    return Standings(against_best, equal, letters_of(best_first, p_values), len(p_values))


def _against(
    best: str, ranked: Right, p_values: Mapping[frozenset[str], float], retryable: Mapping[str, set[str]]
) -> dict[str, str]:
    """Compare cells with the best one, in words."""
    adjusted = {name: p_values[frozenset((best, name))] for name in ranked if name != best}
    close = sum(p_value >= LEVEL for p_value in adjusted.values())
    words = {best: f"best; {close:,} of {counted(len(adjusted), 'other')} statistically tied"}
    for name, p_value in adjusted.items():
        if p_value >= LEVEL:
            words[name] = f"statistically tied, p = {in_words(p_value)}"
        elif compare_runs(ranked[name], ranked[best]).stands_without(retryable[name]):
            words[name] = f"lower, p = {in_words(p_value)}"
        else:
            words[name] = f"not ranked: {counted(len(retryable[name]), 'question')} without an answer"
    return words


def _counts(verdicts: Mapping[str, bool]) -> tuple[int, int]:
    """Return the number of right answers, and of questions."""
    return sum(verdicts.values()), len(verdicts)


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
    start: SweepOptions,
    cells: Sequence[Cell],
    estimates: Sequence[Estimate],
    opened: Opened,
) -> Sweep:
    """Evaluate every cell in order, each with a control of its own; the others continue if one fails.

    `opened` opens the control of a cell, by its place among all, with its display of progress.
    """
    budget = None if start.budget_usd is None else Budget(start.budget_usd)
    tagged = [replace(cell, tags={**start.labels, "sweep": start.sweep_id, **cell.tags}) for cell in cells]
    done = [
        CellResult.of(cell, estimated, outcome)
        for cell, estimated, outcome in zip(cells, estimates, run_cells(tagged, opened, budget), strict=True)
    ]
    home = Home(Path(cells[0].settings.home))
    page, served = _page(home, start.sweep_id, done), shown_store(home).served
    return Sweep(start.sweep_id, tuple(done), budget, standings(done), page, served)


def _page(home: Home, sweep_id: str, cells: Sequence[CellResult]) -> str:
    runs = (done.evaluated.mlflow_run_id for done in cells if done.evaluated)
    run_id = next((run for run in runs if run), None)
    return show_sweep(find_store(home), run_id, sweep_id) if run_id else ""

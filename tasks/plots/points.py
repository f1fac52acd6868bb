"""Figures with points: score against cost, over time, over an agent's turns, repeats."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tasks.core.errors import DataError
from tasks.plots.style import (
    BLUE,
    COLOURS,
    GREY,
    MARKERS,
    Width,
    intervals,
    labels,
    new_figure,
    percents,
)
from tasks.scoring.score import Accuracy
from tasks.tracking.pareto import Priced, pareto_front
from tasks.tracking.repeats.noise import Noise
from tasks.tracking.run_record import RunRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def pareto(runs: Sequence[RunRecord], width: Width) -> "Figure":
    """Draw execution accuracy against cost from scratch; a line joins the runs that no other one beats in both.

    Raises:
        DataError: the cost of a run is unknown, or the runs are not of the same questions.
    """
    _require_same_questions(runs)
    names = labels(runs)
    systems = [Priced(name, run.score, _cost(run)) for name, run in zip(names, runs, strict=True)]
    if not any(each.usd for each in systems):
        raise DataError("All of these runs are free: there is no cost to draw.")
    front = pareto_front(systems)
    with new_figure(width) as (figure, (axis,)):
        axis.plot(
            [each.usd for each in front],
            percents([each.ex for each in front]),
            color=GREY,
            linestyle="--",
            zorder=1,
        )
        for place, each in enumerate(systems):
            axis.errorbar(
                [each.usd], percents([each.ex]), intervals([each.ex]), label=each.name, linestyle="",
                color=COLOURS[place % len(COLOURS)], marker=MARKERS[place % len(MARKERS)], markersize=5, capsize=2,
                elinewidth=0.8, markerfacecolor=None if each in front else "white",
            )  # fmt: skip
        axis.set_xlabel("cost from scratch (US dollars)")
        axis.set_ylabel("execution accuracy (%)")
        axis.set_xlim(left=min(0.0, -0.03 * max(each.usd for each in systems)))
        figure.legend(loc="outside upper center", ncols=width)
        return figure


def trend(runs: Sequence[RunRecord], width: Width) -> "Figure":
    """Draw execution accuracy by date, with 95 % intervals: a line for each benchmark, backbone and pipeline."""
    ordered = sorted(runs, key=lambda run: (run.combination, run.started))
    groups = [list(group) for _, group in itertools.groupby(ordered, key=lambda run: run.combination)]
    with new_figure(width) as (figure, (axis,)):
        for place, (group, name) in enumerate(
            zip(groups, labels([group[0] for group in groups]), strict=True)
        ):
            started: Any = [run.started for run in group]  # matplotlib takes times, its types do not
            found = [run.score for run in group]
            axis.errorbar(
                started, percents(found), intervals(found), label=name,
                color=COLOURS[place % len(COLOURS)], marker=MARKERS[place % len(MARKERS)], markersize=4, capsize=2,
                elinewidth=0.8,
            )  # fmt: skip
        axis.set_ylabel("execution accuracy (%)")
        figure.legend(loc="outside upper center", ncols=width)
        return figure


def turns(runs: Sequence[RunRecord], width: Width) -> "Figure":
    """Draw execution accuracy if an agent is stopped after a turn, with 95 % intervals: a line for each run.

    Raises:
        DataError: a run has no turns, or the runs are not of the same questions.
    """
    from matplotlib.ticker import MaxNLocator

    _require_same_questions(runs)
    for run in runs:
        if not run.metrics.get("turns"):
            raise DataError(f"The run {run.run_id} has no turns: only agents have them.")
    with new_figure(width) as (figure, (axis,)):
        for place, (run, name) in enumerate(zip(runs, labels(runs), strict=True)):
            curve = run.metrics["turns"]["curve"]
            found = [Accuracy(point["correct"], point["total"]) for point in curve]
            axis.errorbar(
                [point["turn"] for point in curve], percents(found), intervals(found), label=name,
                color=COLOURS[place % len(COLOURS)], marker=MARKERS[place % len(MARKERS)], markersize=4, capsize=2,
                elinewidth=0.8,
            )  # fmt: skip
        axis.set_xlabel("stopped after turn")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_ylabel("execution accuracy (%)")
        figure.legend(loc="outside upper center", ncols=width)
        return figure


def noise(found: Noise, width: Width) -> "Figure":
    """Draw the repeats of a run: their scores around the mean, and how many questions k of the repeats have right."""
    from matplotlib.ticker import MaxNLocator

    with new_figure(width, 1 if width == 1 else 2) as (figure, axes):
        scores = [each.ex for each in found.repeats]
        axis, mean, sd = axes[0], 100 * found.ex_mean, 100 * found.ex_sd
        axis.axhspan(mean - sd, mean + sd, color=BLUE, alpha=0.15, linewidth=0, label="standard deviation")
        axis.axhline(mean, color=BLUE, linewidth=0.8, label="mean")
        axis.errorbar(
            range(1, len(scores) + 1), percents(scores), intervals(scores), linestyle="", marker="o", markersize=4,
            color="black", capsize=2, elinewidth=0.8, label="repeat, 95 % interval",
        )  # fmt: skip
        axis.set_xlabel("repeat")
        axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_ylabel("execution accuracy (%)")
        figure.legend(*axis.get_legend_handles_labels(), loc="outside upper center", ncols=1 + width)
        if len(axes) > 1:
            last = axes[1]
            last.plot(
                list(found.pass_k),
                [100 * share for share in found.pass_k.values()],
                marker="o",
                markersize=4,
                color=BLUE,
            )
            last.set_xlabel("k")
            last.set_title("all of k runs right (%)")
            last.xaxis.set_major_locator(MaxNLocator(integer=True))
        return figure


def _require_same_questions(runs: Sequence[RunRecord]) -> None:
    sets = {(run.benchmark, run.question_set or run.question_sha256, run.score.total) for run in runs}
    if len(sets) > 1:
        raise DataError(
            "The runs are not of the same questions, so their scores and costs cannot be drawn on one axis. "
            "`crosscheck runs` shows their benchmarks and counts."
        )


def _cost(run: RunRecord) -> float:
    if run.cost.from_scratch_usd is None:
        raise DataError(
            f"The cost of the run {run.run_id} is unknown: its model has no prices. Add prices to the backbone file, "
            "or leave the run out."
        )
    return run.cost.from_scratch_usd

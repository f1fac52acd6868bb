"""Figures with bars: stages, difficulties, causes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tasks.core.errors import DataError
from tasks.plots.style import (
    BLUE,
    COLOURS,
    GREEN,
    GREY,
    HEIGHT,
    VERMILION,
    Width,
    intervals,
    labels,
    new_figure,
    percents,
)
from tasks.tracking.run_record import RunRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PANELS = 4
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++")
"""Patterns of bars, for print without colours."""


def stages(runs: Sequence[RunRecord], width: Width) -> "Figure":
    """Draw what each stage of a pipeline gains and loses: a waterfall for each run.

    Raises:
        DataError: a run has no stages, or there are more than four runs.
    """
    for run in runs:
        if not run.stages:
            raise DataError(
                f"The run {run.run_id} has no stages: predictions from a file have none, and turns have a figure of "
                "their own."
            )
    if len(runs) > MOST_PANELS:
        raise DataError(f"A figure of stages shows at most {MOST_PANELS} runs; {len(runs)} were named.")
    with new_figure(width, len(runs)) as (figure, axes):
        for axis, run, name in zip(axes, runs, labels(runs), strict=True):
            _waterfall(axis, run)
            axis.set_title(name)
        axes[0].set_ylabel("execution accuracy (%)")
        return figure


def _waterfall(axis: "Axes", run: RunRecord) -> None:
    """Draw the score after each stage as a step, and what the stage fixed and broke of it as bars."""
    total, levels = run.stages[0].total, percents(run.stages)
    for place, stage in enumerate(run.stages):
        axis.plot([place - 0.4, place + 0.4], [levels[place]] * 2, color=BLUE)
        if stage.fixed is None or stage.broken is None or not total:
            continue
        before, fixed, broken = levels[place - 1], 100 * stage.fixed / total, 100 * stage.broken / total
        axis.plot([place - 0.6, place - 0.4], [before] * 2, color=GREY, linewidth=0.8)
        axis.bar(place - 0.18, fixed, 0.34, bottom=before, color=GREEN, label="fixed")
        axis.bar(
            place + 0.18, -broken, 0.34, bottom=before + fixed, color=VERMILION, hatch="//", label="broken"
        )
        axis.annotate(
            f"+{stage.fixed} \N{MINUS SIGN}{stage.broken}", (place, before + fixed), ha="center", va="bottom",
            xytext=(0, 2), textcoords="offset points", fontsize=6,
        )  # fmt: skip
    last, final = len(run.stages), run.score
    axis.errorbar(
        [last],
        percents([final]),
        intervals([final]),
        marker="o",
        markersize=4,
        color=BLUE,
        capsize=2,
        elinewidth=0.8,
    )
    names = [stage.name.partition("_")[2].replace("_", " ") or stage.name for stage in run.stages]
    axis.set_xticks(range(last + 1), [*names, "final"], rotation=35, ha="right", rotation_mode="anchor")
    axis.margins(x=0.06, y=0.12)
    axis.grid(visible=False, axis="x")


def difficulty(runs: Sequence[RunRecord], width: Width) -> "Figure":
    """Draw the execution accuracy by the benchmark's grades of difficulty, with 95 % intervals.

    Raises:
        DataError: a run's benchmark has no grades.
    """
    for run in runs:
        if not run.by_difficulty:
            raise DataError(f"The questions of the run {run.run_id} have no grades of difficulty.")
    grades = list(dict.fromkeys(grade for run in runs for grade in run.by_difficulty))
    with new_figure(width) as (figure, (axis,)):
        for place, (run, name) in enumerate(zip(runs, labels(runs), strict=True)):
            there = [number for number, grade in enumerate(grades) if grade in run.by_difficulty]
            found = [run.by_difficulty[grades[number]] for number in there]
            size = 0.8 / len(runs)
            at = [number + (place - (len(runs) - 1) / 2) * size for number in there]
            axis.bar(
                at, percents(found), 0.92 * size, yerr=intervals(found), label=name,
                color=COLOURS[place % len(COLOURS)], hatch=HATCHES[place % len(HATCHES)],
                error_kw={"linewidth": 0.8, "capsize": 2},
            )  # fmt: skip
        totals = [
            max(run.by_difficulty[grade].total for run in runs if grade in run.by_difficulty)
            for grade in grades
        ]
        axis.set_xticks(
            range(len(grades)),
            [f"{grade}\nn = {count:,}" for grade, count in zip(grades, totals, strict=True)],
        )
        axis.set_ylim(0, 100)
        axis.set_ylabel("execution accuracy (%)")
        axis.grid(visible=False, axis="x")
        if len(runs) > 1:
            figure.legend(loc="outside upper center", ncols=min(len(runs), 2 * width))
        return figure


def causes(runs: Sequence[RunRecord], width: Width) -> "Figure":
    """Draw which share of the scored questions of each run is wrong for each cause, the most frequent cause first.

    Shares make runs of benchmarks of different sizes comparable. A question may have several causes.

    Raises:
        DataError: no question of any run is wrong for a known cause.
    """
    shares = [
        {
            name: 100 * (count or 0) / max(1, run.scored or 0)
            for name, count in (run.metrics.get("errors") or {}).items()
        }
        for run in runs
    ]
    names = {name for found in shares for name, share in found.items() if share}
    if not names:
        raise DataError("No question of these runs is wrong for a known cause.")
    ordered = sorted(names, key=lambda name: (-sum(found.get(name) or 0 for found in shares), name))
    height = max(HEIGHT, 0.6 + 0.16 * len(ordered) * max(1.0, 0.6 * len(runs)))
    with new_figure(width, height=height) as (figure, (axis,)):
        for place, (found, name) in enumerate(zip(shares, labels(runs), strict=True)):
            size = 0.8 / len(runs)
            at = [number + (place - (len(runs) - 1) / 2) * size for number in range(len(ordered))]
            axis.barh(
                at, [found.get(cause) or 0 for cause in ordered], 0.92 * size, label=name,
                color=COLOURS[place % len(COLOURS)], hatch=HATCHES[place % len(HATCHES)],
            )  # fmt: skip
        axis.set_yticks(range(len(ordered)), [cause.replace("_", " ") for cause in ordered])
        axis.invert_yaxis()
        axis.set_xlabel("% of the scored questions")
        axis.grid(visible=False, axis="y")
        if len(runs) > 1:
            figure.legend(loc="outside upper center", ncols=min(len(runs), 2 * width))
        return figure

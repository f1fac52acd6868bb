"""Figures of runs for papers and slides, drawn by matplotlib."""

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tasks.core.errors import ConfigurationError, DataError
from tasks.results.curves import Priced, pareto_front
from tasks.results.run_record import RunHeader, RunRecord
from tasks.scoring.scores import Accuracy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Width = Literal[1, 2]
"""Columns of a paper that a figure takes."""
INCHES: dict[Width, float] = {1: 3.35, 2: 7.0}
"""Widths of one and two columns of the ACL and IEEE templates, in inches."""
HEIGHT = 2.5  # of a figure, in inches
MAX_PANELS = 4
FORMATS = ("pdf", "svg", "png")
BLUE, VERMILION, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#8c8c8c"
COLOURS = (BLUE, VERMILION, GREEN, "#E69F00", "#CC79A7", "#56B4E9", "#000000")
"""The palette of Okabe and Ito (2008), without its yellow, which is too light for lines."""
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++")
"""Patterns of bars, for print without colours."""
_SETTINGS: Any = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e0e0e0",
    "grid.linewidth": 0.5,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "date.converter": "concise",
    "pdf.fonttype": 42,  # text that an editor can select and change
    "svg.fonttype": "none",
    "svg.hashsalt": "crosscheck",  # equal figures are equal files
}


def plot(runs: Sequence[RunRecord], kind: str, width: Width = 1) -> "Figure":
    """Draw a figure of finished runs; `kind` is one of `KINDS`."""
    if kind not in KINDS:
        raise ConfigurationError(f'There is no figure "{kind}". Available: {", ".join(KINDS)}.')
    if not runs:
        raise ConfigurationError("Name at least one run.")
    for run in runs:
        if run.accuracy is None:
            raise DataError(f"The run {run.run_id} is {run.status}: it has no score yet.")
    return KINDS[kind](runs, width)


def stages(runs: Sequence[RunRecord], width: Width) -> "Figure":
    """Draw what each stage of a pipeline gains and loses: a waterfall for each run, at most four."""
    for run in runs:
        if not run.stages:
            raise DataError(f"The run {run.run_id} has no stages: predictions from a file have none.")
    if len(runs) > MAX_PANELS:
        raise DataError(f"A figure of stages shows at most {MAX_PANELS} runs; {len(runs)} were named.")
    with _new_figure(width, len(runs)) as (figure, axes):
        for axis, run, name in zip(axes, runs, labels(runs), strict=True):
            _waterfall(axis, run)
            axis.set_title(name)
        axes[0].set_ylabel("execution accuracy (%)")
        return figure


def _waterfall(axis: "Axes", run: RunRecord) -> None:
    """Draw the score after each stage as a step, and what the stage fixed and broke of it as bars."""
    total = run.stages[0].total
    levels = _percents(run.stages)
    for x, stage in enumerate(run.stages):
        axis.plot([x - 0.4, x + 0.4], [levels[x]] * 2, color=BLUE)
        if stage.fixed is None or stage.broken is None or not total:  # as of the first stage
            continue
        before = levels[x - 1]
        top = before + 100 * stage.fixed / total
        axis.bar(x - 0.18, top - before, 0.34, bottom=before, color=GREEN, label="fixed")
        loss = -100 * stage.broken / total
        axis.bar(x + 0.18, loss, 0.34, bottom=top, color=VERMILION, hatch="//", label="broken")
        text = f"+{stage.fixed} \N{MINUS SIGN}{stage.broken}"
        axis.annotate(text, (x, top), (0, 2), textcoords="offset points", ha="center", fontsize=6)
    _draw_scores(axis, [len(run.stages)], [run.score], color=BLUE)
    names = [stage.name.partition("_")[2].replace("_", " ") or stage.name for stage in run.stages]
    axis.set_xticks(range(len(names) + 1), [*names, "final"], rotation=35, ha="right")
    axis.margins(x=0.06, y=0.12)
    axis.grid(visible=False, axis="x")


def pareto(runs: Sequence[RunRecord], width: Width) -> "Figure":
    """Draw execution accuracy against cost from scratch; a line joins the runs that no other run beats in both."""
    if len({(run.benchmark, run.question_set or run.question_sha256, run.score.total) for run in runs}) > 1:
        raise DataError(
            "The runs are not of the same questions, so their scores and costs cannot be drawn on one axis. "
            "`crosscheck runs` shows their benchmarks and counts."
        )
    systems = [Priced(name, run.score, _cost(run)) for name, run in zip(labels(runs), runs, strict=True)]
    if not any(system.usd for system in systems):
        raise DataError("All of these runs are free: there is no cost to draw.")
    front = pareto_front(systems)
    with _new_figure(width) as (figure, (axis,)):
        scores = _percents([system.ex for system in front])
        axis.plot([system.usd for system in front], scores, color=GREY, linestyle="--", zorder=1)
        for system, colour in zip(systems, itertools.cycle(COLOURS)):
            face = colour if system in front else "white"
            _draw_scores(
                axis, [system.usd], [system.ex], label=system.name, color=colour, markerfacecolor=face
            )
        axis.set_xlabel("cost from scratch (US dollars)")
        axis.set_ylabel("execution accuracy (%)")
        figure.legend(loc="outside upper center", ncols=width)
        return figure


def _cost(run: RunRecord) -> float:
    if (usd := run.cost.from_scratch_usd) is None:
        reason = "its model has no prices. Add prices to the backbone file, or leave the run out"
        if run.made_elsewhere:
            reason = "its answers were made elsewhere. Leave the run out"
        raise DataError(f"The cost of the run {run.run_id} is unknown: {reason}.")
    return usd


def trend(runs: Sequence[RunRecord], width: Width) -> "Figure":
    """Draw execution accuracy by date, with 95 % intervals: a line for each benchmark, backbone and pipeline."""
    ordered = sorted(runs, key=lambda run: (run.combination, run.started))
    groups = [list(group) for _, group in itertools.groupby(ordered, key=lambda run: run.combination)]
    names = labels([group[0] for group in groups])
    with _new_figure(width) as (figure, (axis,)):
        for group, name, colour in zip(groups, names, itertools.cycle(COLOURS)):
            starts = [run.started for run in group]
            _draw_scores(axis, starts, [run.score for run in group], label=name, color=colour)
        axis.set_ylabel("execution accuracy (%)")
        figure.legend(loc="outside upper center", ncols=width)
        return figure


def causes(runs: Sequence[RunRecord], width: Width) -> "Figure":
    """Draw which share of the scored questions of each run is wrong for each cause; a question may have several."""
    shares = [_shares_of_causes(run) for run in runs]
    names = {name for by_cause in shares for name, share in by_cause.items() if share}
    if not names:
        raise DataError("No question of these runs is wrong for a known cause.")
    ordered = sorted(names, key=lambda name: (-sum(by_cause.get(name) or 0 for by_cause in shares), name))
    height = max(HEIGHT, 0.6 + 0.16 * len(ordered) * max(1.0, 0.6 * len(runs)))
    thickness = 0.8 / len(runs)
    with _new_figure(width, height=height) as (figure, (axis,)):
        styles = zip(itertools.cycle(COLOURS), itertools.cycle(HATCHES))
        for index, (by_cause, name, style) in enumerate(zip(shares, labels(runs), styles, strict=False)):
            # the bars of the runs lie around the middle of a cause's row
            offset = (index - (len(runs) - 1) / 2) * thickness
            positions = [row + offset for row in range(len(ordered))]
            widths = [by_cause.get(cause) or 0 for cause in ordered]
            axis.barh(positions, widths, 0.92 * thickness, label=name, color=style[0], hatch=style[1])
        axis.set_yticks(range(len(ordered)), [cause.replace("_", " ") for cause in ordered])
        axis.invert_yaxis()
        axis.set_xlabel("% of the scored questions")
        axis.grid(visible=False, axis="y")
        if len(runs) > 1:
            figure.legend(loc="outside upper center", ncols=min(len(runs), 2 * width))
        return figure


def _shares_of_causes(run: RunRecord) -> dict[str, float]:
    counts = (run.metrics.get("errors") or {}).items()
    return {cause: 100 * (count or 0) / max(1, run.scored or 0) for cause, count in counts}


KINDS = {"stages": stages, "pareto": pareto, "trend": trend, "causes": causes}


@contextmanager
def _new_figure(
    width: Width, panels: int = 1, height: float = HEIGHT
) -> "Iterator[tuple[Figure, list[Axes]]]":
    """Open a figure with panels beside each other, which share the y axis."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS):
        figure = Figure(figsize=(INCHES[width], height), layout="constrained")
        axes = figure.subplots(1, panels, sharey=True, squeeze=False)
        yield figure, list(axes[0])


def save(figure: "Figure", file: Path) -> None:
    """Write a figure in the format of the file's ending. Equal figures are equal files."""
    from matplotlib import rc_context

    file_format = file.suffix.lstrip(".").lower()
    if file_format not in FORMATS:
        raise ConfigurationError(f"{file}: the file name must end in .pdf, .svg or .png.")
    no_date = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": None}[file_format]
    try:
        with rc_context(_SETTINGS):
            figure.savefig(file, format=file_format, dpi=300, metadata=no_date)
    except OSError as error:
        raise ConfigurationError(f"The figure cannot be written to {file}: {error.strerror}.") from None


def labels(runs: Sequence[RunHeader]) -> list[str]:
    """Name runs by what distinguishes them: benchmark, backbone, pipeline, a name that the user gave, else the id.

    A single run is named by its pipeline and backbone.
    """
    parts = [(run.pipeline, run.backbone, run.benchmark, run.tags.get("name", "")) for run in runs]
    varying = [index for index, values in enumerate(zip(*parts, strict=True)) if len(set(values)) > 1]
    indices = varying or [0, 1]  # the pipeline and the backbone
    names = [", ".join(part[index] for index in indices if part[index]) for part in parts]
    return [
        name if names.count(name) == 1 else f"{name} ({run.run_id})"
        for name, run in zip(names, runs, strict=True)
    ]


def _draw_scores(axis: "Axes", x: Any, scores: Sequence[Accuracy], **style: Any) -> None:
    """Draw scores as points with their 95 % intervals; `x` are numbers or times."""
    down = [100 * ((score.ex or 0.0) - (score.low or 0.0)) for score in scores]
    up = [100 * ((score.high or 0.0) - (score.ex or 0.0)) for score in scores]
    axis.errorbar(x, _percents(scores), [down, up], marker="o", markersize=4, capsize=2, **style)


def _percents(scores: Sequence[Accuracy]) -> list[float]:
    return [100 * (score.ex or 0.0) for score in scores]

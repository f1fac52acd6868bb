"""Figures of a report as PNG: execution accuracy by stage, and what each stage fixed and broke."""

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from tasks.scoring.report import Report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLUE = "#0072B2"  # Okabe and Ito's palette: told apart with any colour vision; the hatch tells them apart in grey
_VERMILION = "#D55E00"
_INK = "#333333"
_GRID = "#dddddd"
_DPI = 144
_MINUS = "\N{MINUS SIGN}"


def stage_figure(report: Report, title: str) -> bytes | None:
    """Draw execution accuracy after each stage, with numerators and denominators; None without a stage."""
    stages = [stage for stage in report.stages if stage.ex.value is not None]
    if not stages:
        return None
    figure, axes = _canvas(len(stages))
    values = [100 * (stage.ex.value or 0.0) for stage in stages]
    axes.bar(range(len(stages)), values, width=0.6, color=_BLUE, zorder=2)
    for place, (value, stage) in enumerate(zip(values, stages, strict=True)):
        _label(axes, place, value, f"{value:.1f} %", f"{stage.ex.correct:g} of {stage.ex.total:g}")
    axes.set_ylim(0, 100 if max(values) < 86 else 114)
    axes.set_yticks(range(0, 101, 20))
    axes.set_ylabel(f"execution accuracy, rule “{report.rule}” (%)")
    _finish(axes, [_words(stage.name) for stage in stages])
    _titles(axes, "Execution accuracy by stage", title)
    return _png(figure)


def change_figure(report: Report, title: str) -> bytes | None:
    """Draw the questions that each stage fixed and broke against the stage before; None below two stages.

    Each count stands above its denominator: the questions that were wrong, or right, before the stage.
    """
    changes = [
        (stage.name, stage.fixed, stage.broken, before.ex)
        for before, stage in zip(report.stages, report.stages[1:], strict=False)
        if stage.fixed is not None and stage.broken is not None
    ]
    if not changes:
        return None
    figure, axes = _canvas(len(changes))
    places = range(len(changes))
    axes.bar(places, [fixed for _, fixed, _, _ in changes], width=0.5, color=_BLUE, zorder=2, label="fixed")
    axes.bar(
        places,
        [-broken for _, _, broken, _ in changes],
        width=0.5,
        color=_VERMILION,
        hatch="///",
        edgecolor="white",
        linewidth=0,
        zorder=2,
        label="broken",
    )
    for place, (_, fixed, broken, before) in enumerate(changes):
        _label(axes, place, fixed, _signed(fixed), f"of {before.total - before.correct:g} wrong before")
        _label(axes, place, -broken, _signed(-broken), f"of {before.correct:g} right before", below=True)
    reach = max(*(max(fixed, broken) for _, fixed, broken, _ in changes), 1)
    axes.set_ylim(-1.4 * reach, 1.4 * reach)
    axes.axhline(0, color=_INK, linewidth=0.8, zorder=3)
    _whole_numbers(axes)
    axes.set_ylabel(f"questions, of {report.scored}")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, borderaxespad=0.2)
    _finish(axes, [f"{_words(name)}\nnet {_signed(fixed - broken)}" for name, fixed, broken, _ in changes])
    axes.spines["bottom"].set_visible(False)
    _titles(axes, "Fixed and broken by each stage", title)
    return _png(figure)


def _canvas(bars: int) -> "tuple[Figure, Axes]":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(6.4, 1.2 + 1.6 * bars), 4.4), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.set_xlim(-0.9 if bars < 3 else -0.55, bars - (0.1 if bars < 3 else 0.45))
    return figure, axes


def _label(axes: "Axes", place: int, value: float, count: str, of: str, *, below: bool = False) -> None:
    """Write a count and, smaller, what it is out of, beyond the end of a bar."""
    near, far = (-18, -4) if below else (4, 14)
    side = "top" if below else "bottom"
    paper = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    axes.annotate(
        of,
        (place, value),
        (0, near),
        textcoords="offset points",
        ha="center",
        va=side,
        size=8,
        color=_INK,
        bbox=paper,
    )
    axes.annotate(
        count,
        (place, value),
        (0, far),
        textcoords="offset points",
        ha="center",
        va=side,
        weight="bold",
        bbox=paper,
    )


def _whole_numbers(axes: "Axes") -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _position: f"{abs(value):g}"))


def _finish(axes: "Axes", names: Sequence[str]) -> None:
    axes.set_xticks(range(len(names)), list(names))
    axes.tick_params(length=0)
    axes.grid(axis="y", color=_GRID, zorder=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _titles(axes: "Axes", heading: str, detail: str) -> None:
    axes.set_title(f"{heading}\n", loc="left", weight="bold", size=12)
    axes.annotate(
        detail, (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points", size=9, color=_INK
    )


def _words(stage: str) -> str:
    """Write a stage's name as a label: its number on a line of its own."""
    number, _, rest = stage.partition("_")
    words = [word.upper() if word == "sql" else word for word in rest.split("_")]
    return f"{number}\n{' '.join(words)}" if number.isdigit() else stage.replace("_", " ")


def _signed(number: int) -> str:
    if number == 0:
        return "0"
    return f"+{number}" if number > 0 else f"{_MINUS}{-number}"


def _png(figure: "Figure") -> bytes:
    target = BytesIO()
    figure.savefig(target, format="png", dpi=_DPI)
    return target.getvalue()

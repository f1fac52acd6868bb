"""How the figures look: sizes of one and two columns, and colours that every kind of colour vision can tell apart."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tasks.core.errors import ConfigurationError
from tasks.scoring.score import Accuracy
from tasks.tracking.run_record import RunHeader

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Width = Literal[1, 2]
"""Columns of a paper that a figure takes."""
INCHES: dict[Width, float] = {1: 3.35, 2: 7.0}
"""Widths of one and two columns of the ACL and IEEE templates, in inches."""
HEIGHT = 2.5
"""Height of a figure in inches."""
BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK = (
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000",
)  # fmt: skip
"""The palette of Okabe and Ito (2008), without its yellow, which is too light for lines."""
COLOURS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#8c8c8c"
FORMATS = ("pdf", "svg", "png")

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
    "lines.linewidth": 1.2,
    "date.converter": "concise",
    "pdf.fonttype": 42,  # text that an editor can select and change
    "svg.fonttype": "none",
    "svg.hashsalt": "crosscheck",  # equal figures are equal files
}


@contextmanager
def new_figure(width: Width, parts: int = 1, height: float = HEIGHT) -> "Iterator[tuple[Figure, list[Axes]]]":
    """Open a figure with so many parts beside each other, which share the axis upwards, in the style of all figures."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS):
        figure = Figure(figsize=(INCHES[width], height), layout="constrained")
        axes = figure.subplots(1, parts, sharey=True, squeeze=False)
        yield figure, list(axes[0])


def save(figure: "Figure", file: Path) -> None:
    """Write a figure; the format is that of the file's ending. Equal figures are equal files.

    Raises:
        ConfigurationError: another ending than pdf, svg or png, or the file cannot be written.
    """
    from matplotlib import rc_context

    kind = format_of(file)
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": None}[kind]
    try:
        with rc_context(_SETTINGS):
            figure.savefig(file, format=kind, dpi=300, metadata=undated)
    except OSError as error:
        raise ConfigurationError(f"The figure cannot be written to {file}: {error.strerror}.") from None


def format_of(file: Path) -> str:
    """Return the format that a file's ending names.

    Raises:
        ConfigurationError: it names none.
    """
    kind = file.suffix.lstrip(".").lower()
    if kind not in FORMATS:
        raise ConfigurationError(
            f"{file}: the file name must end in .{', .'.join(FORMATS[:-1])} or .{FORMATS[-1]}."
        )
    return kind


def intervals(found: Sequence[Accuracy]) -> list[list[float]]:
    """Return how far the 95 % intervals of shares reach down and up, in points, as matplotlib takes them."""
    down = [100 * ((each.ex or 0.0) - (each.low or 0.0)) for each in found]
    up = [100 * ((each.high or 0.0) - (each.ex or 0.0)) for each in found]
    return [down, up]


def percents(found: Sequence[Accuracy]) -> list[float]:
    """Return shares in percent."""
    return [100 * (each.ex or 0.0) for each in found]


def labels(runs: Sequence[RunHeader]) -> list[str]:
    """Name runs by what distinguishes them: benchmark, backbone, pipeline, a given name, else the id.

    A single run is named by its pipeline and backbone.
    """
    parts = [(run.pipeline, run.backbone, run.benchmark, run.tags.get("name", "")) for run in runs]
    varied = [place for place in range(4) if len({each[place] for each in parts}) > 1] or [0, 1]
    named = [", ".join(each[place] for place in varied if each[place]) for each in parts]
    return [
        name if named.count(name) == 1 else f"{name} ({run.run_id})"
        for name, run in zip(named, runs, strict=True)
    ]

"""Charts as values: what is drawn, in percent, counts or points of time; the templates of the pages draw it.

`kind` names how something is drawn: "a" hollow and vermilion, "b" solid and blue, "before" hollow and grey, "past"
grey, "now" blue, "worse" vermilion, "doubt" amber: distinguishable in grey and with any colour vision.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A share in percent with its interval."""

    value: float
    low: float
    high: float
    kind: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Points:
    """Shares below each other on the axis of a table's column; `label` says them in words."""

    points: tuple[Point, ...]
    label: str


@dataclass(frozen=True, slots=True)
class TwoSided:
    """A count to the left and one to the right; `reach` is the greatest count of the column."""

    left: int
    right: int
    reach: int
    label: str


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A small line of values, the last of which is emphasised."""

    values: tuple[float, ...]
    kind: str
    label: str


Plot = Points | TwoSided | Sparkline
"""A chart in a table's cell."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """Values with intervals on a common axis.

    Attributes:
        points: the values; `label` of each stands beside it.
        label: the chart in words.
        form: format of the axis.
        band: values up to this one on both sides of 0 are inside the noise; None without a band.
        sides: what a value below 0 and one above 0 mean; () for shares.
        texts: the values as a person reads them.
        low, high: ends of the axis.
    """

    points: tuple[Point, ...]
    texts: tuple[str, ...]
    label: str
    low: float
    high: float
    form: str = "{:g} %"
    band: float | None = None
    sides: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """Counts as the parts of one bar: name, count and kind."""

    parts: tuple[tuple[str, int, str], ...]
    label: str


@dataclass(frozen=True, slots=True)
class LinePoint:
    """A point of a line, with its interval; `tip` says it in words."""

    x: float
    y: float
    low: float
    high: float
    kind: str
    tip: str = ""
    label: str = ""
    emphasised: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points."""

    points: tuple[LinePoint, ...]
    kind: str
    dashed: bool = False
    marked: bool = True


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines over a common axis, with percent upwards.

    Attributes:
        lines: the lines.
        label: the chart in words.
        x: lowest and highest value to the right.
        y: lowest and highest percentage.
        ticks: values of the axis to the right, with their texts.
        title: of the axis to the right.
        level: where a dashed line to the right end begins; None for none.
        dense: whether there are too many points for an interval each: the intervals are a band.
    """

    lines: tuple[Line, ...]
    label: str
    x: tuple[float, float]
    y: tuple[float, float]
    ticks: tuple[tuple[float, str], ...]
    title: str = ""
    level: LinePoint | None = None
    dense: bool = False


Chart = Intervals | Parts | Lines
"""A chart with a caption of its own."""

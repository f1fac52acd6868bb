"""Charts as values: what is drawn, in percent, counts or points of time; the templates of the pages draw it.

`kind` names how something is drawn: "a" hollow and vermilion, "b" solid and blue, "before" hollow and grey, "past"
grey, "now" blue, "worse" vermilion, "doubt" amber: distinguishable in grey and with any colour vision.
"""

from dataclasses import dataclass

MIN_REACH = 20.0
"""Percentage points that a chart of lines shows at least."""


@dataclass(frozen=True, slots=True)
class Point:
    """A value in percent with its interval; `label` stands beside it, `text` is the value as a person reads it."""

    value: float
    low: float
    high: float
    kind: str
    label: str = ""
    text: str = ""


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
    """Values with intervals on a common axis."""

    points: tuple[Point, ...]  # the values
    label: str  # the chart in words
    sides: tuple[str, ...] = ()  # of differences, what one below 0 and one above 0 mean; () for shares
    # differences up to this one are inside the noise; None: all of them, 0: not drawn
    band: float | None = None

    @property
    def axis(self) -> tuple[float, float]:
        """The ends of the axis: around shares, or equally far to both sides of 0."""
        ends = [end for point in self.points for end in (point.low, point.high)]
        if self.sides:
            reach = max([1.0, *(1.15 * abs(value) for value in (*ends, self.band or 0.0))])
            return -reach, reach
        return max(0.0, min(ends, default=0.0) - 4), min(100.0, max(ends, default=100.0) + 4)


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
    """Lines over a common axis, with percent upwards."""

    lines: tuple[Line, ...]  # the lines
    label: str  # the chart in words
    ticks: tuple[tuple[float, str], ...]  # values of the axis to the right, with their texts
    title: str = ""  # of the axis to the right
    level: LinePoint | None = None  # where a dashed line to the right end begins; None for none
    dense: bool = False  # whether there are too many points for an interval each: the intervals are a band

    @property
    def x(self) -> tuple[float, float]:
        """The ends of the axis to the right: it begins at 0 if it has a title, else at the first point."""
        values = [point.x for line in self.lines for point in line.points]
        low, high = (0.0, 1.05 * max(values)) if self.title else (min(values), max(values))
        return low, high if high > low else low + 1

    @property
    def y(self) -> tuple[float, float]:
        """The ends of the axis upwards: enough around all intervals that noise looks like noise."""
        ends = [end for line in self.lines for point in line.points for end in (point.low, point.high)]
        low, high = min(ends), max(ends)
        spare = max(3.0, (MIN_REACH - (high - low)) / 2)
        low = max(0.0, min(low - spare, 100 - MIN_REACH))
        return low, min(100.0, max(high + spare, low + MIN_REACH))


Chart = Intervals | Parts | Lines
"""A chart with a caption of its own."""

"""Scales, axes and marks of every chart, as SVG.

Colours are classes, defined by the page or file that holds a chart: on a page a chart follows the light or dark scheme
and loads nothing. That, a text alternative for each chart and dozens of small charts in table cells are why this is
not matplotlib.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor

from markupsafe import Markup

_STEPS = (0.5, 1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000, 2000, 5000)


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from `low` to `high` on pixels from `left` to `right`."""

    low: float
    high: float
    left: float
    right: float

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.left + share * (self.right - self.left), 2)

    def ticks(self, wanted: int = 8) -> list[float]:
        """Return round values within, not many more than are wanted."""
        step = next((step for step in _STEPS if (self.high - self.low) / step <= wanted), _STEPS[-1])
        return [place * step for place in range(ceil(self.low / step), floor(self.high / step) + 1)]


def axis(scale: Scale, top: float, bottom: float, form: str) -> Markup:
    """Draw the grid of a horizontal scale, and its numbers below."""
    parts = []
    for tick in scale.ticks():
        at = scale.at(tick)
        name = form.format(tick).replace("-", "\N{MINUS SIGN}").replace("+0", "0")
        parts += [
            element("line", class_="grid", x1=at, x2=at, y1=top, y2=bottom),
            element("text", name, class_="small quiet middle", x=at, y=bottom + 16),
        ]
    return Markup("").join(parts)


def whisker(scale: Scale, low: float, high: float, height: float, kind: str, *, thin: bool = False) -> Markup:
    """Draw a horizontal interval; `kind` gives its colour."""
    left, right, half = scale.at(low), scale.at(high), 3 if thin else 6
    path = f"M{left} {height - half}V{height + half}M{left} {height}H{right}M{right} {height - half}V{height + half}"
    return element("path", class_=f"whisker {kind}-line" + (" thin" if thin else ""), d=path)


def dot(place: float, height: float, kind: str, radius: float) -> Markup:
    """Draw a point; `kind` gives its colour."""
    return element("circle", class_=f"{kind}-dot", cx=place, cy=height, r=radius)


def svg(width: float, height: float, label: str, parts: Iterable[Markup], **more: str) -> Markup:
    """Put parts into a picture; without a label, screen readers skip it."""
    named = more | ({"role": "img", "aria_label": label} if label else {"aria_hidden": "true"})
    return element(
        "svg", Markup("").join(parts), viewBox=f"0 0 {width} {height}", width=width, height=height, **named
    )


def element(tag: str, content: str = "", **attributes: object) -> Markup:
    """Write an element; everything that is not markup already is escaped."""
    given = Markup(" ").join(
        Markup('{}="{}"').format(name.rstrip("_").replace("_", "-"), value)
        for name, value in attributes.items()
    )
    return Markup("<{0} {1}>{2}</{0}>").format(tag, given, content)

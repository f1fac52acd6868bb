"""The plots of a comparison's page, as SVG that takes its colours from the page.

Whoever is right gives the colour: what speaks for A is vermilion, hollow or hatched, what speaks for B is blue and
solid, so that the two are told apart in grey and with any colour vision.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, floor

from markupsafe import Markup

from tasks.scoring.report import Ratio
from tasks.scoring.significance import Comparison, needed_net, wilson
from tasks.tracking.comparison.records import Contrast, RunComparison, Side
from tasks.tracking.comparison.words import counts, percent, points

_WIDTH = 640
_ROW = (220, 30)
_STEPS = (0.5, 1, 2, 5, 10, 20, 25, 50)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Values from `low` to `high` on pixels from `left` to `right`."""

    low: float
    high: float
    left: float
    right: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.left + share * (self.right - self.left), 2)

    def ticks(self, wanted: int = 8) -> list[float]:
        step = next((step for step in _STEPS if (self.high - self.low) / step <= wanted), _STEPS[-1])
        return [place * step for place in range(ceil(self.low / step), floor(self.high / step) + 1)]


def accuracy_chart(comparison: RunComparison) -> Markup:
    """Draw the execution accuracy of both runs with their intervals."""
    sides = (comparison.a, comparison.b)
    low = max(0.0, 100 * min(side.low for side in sides) - 4)
    high = min(100.0, 100 * max(side.high for side in sides) + 4)
    scale = _Scale(low, high, 34, _WIDTH - 20)
    parts = [_axis(scale, 30, 118, "{:g} %")]
    for side, height in zip(sides, (52, 96), strict=True):
        parts += _measured(scale, side, height)
    label = "; ".join(f"{side.letter}: {percent(side.ex)}, {counts(side.ex)}" for side in sides)
    return _svg(_WIDTH, 142, f"Execution accuracy. {label}", parts)


def difference_chart(result: Comparison) -> Markup:
    """Draw the difference with its interval, over the band in which the test cannot tell it from chance."""
    net = needed_net(result.differing, result.level)
    needed = None if net is None else 100 * net / result.questions
    ends = [100 * result.low, 100 * result.high, needed or 0.0, -(needed or 0.0)]
    reach = max(1.0, 1.15 * max(abs(end) for end in ends))
    scale = _Scale(-reach, reach, 20, _WIDTH - 20)
    band = reach if needed is None else needed
    height, top, bottom = 66, 34, 92
    middle = 100 * result.difference
    kind = "a" if middle < 0 else "b"
    parts = [
        _one(
            "rect",
            class_="noise",
            x=scale.at(-band),
            y=top,
            width=scale.at(band) - scale.at(-band),
            height=bottom - top,
        ),
        _one("text", "inside the noise", class_="small quiet middle", x=scale.at(0), y=20),
        _axis(scale, top, bottom, "{:+g}"),
        _one("line", class_="zero", x1=scale.at(0), x2=scale.at(0), y1=top, y2=bottom),
        _one("text", "\N{LEFTWARDS ARROW} A is better", class_="small a-text", x=20, y=20),
        _one("text", "B is better \N{RIGHTWARDS ARROW}", class_="small b-text end", x=_WIDTH - 20, y=20),
        _whisker(scale, 100 * result.low, 100 * result.high, height, kind),
        _dot(scale.at(middle), height, kind, 7),
        _one("text", points(result.difference), class_="strong middle", x=scale.at(middle), y=height + 22),
    ]
    label = (
        f"B minus A: {points(result.difference)} points, {100 * result.confidence:g} % interval "
        f"{points(result.low)} to {points(result.high)}"
    )
    return _svg(_WIDTH, 116, label, parts)


def outcome_bar(result: Comparison) -> Markup:
    """Draw the questions as one bar: right in both, fixed, broken, wrong in both."""
    scale = _Scale(0, max(result.questions, 1), 0, _WIDTH)
    named = (
        ("right in both", result.both_right, "both-right"),
        ("fixed by B", len(result.fixed), "b-fill"),
        ("broken by B", len(result.broken), "a-fill"),
        ("wrong in both", result.both_wrong, "both-wrong"),
    )
    parts, start = [], 0
    for name, count, class_ in named:
        if count:
            left, right = scale.at(start), scale.at(start + count)
            tip = _one("title", f"{name}: {count:,} of {result.questions:,}")
            parts.append(
                _one("rect", tip, class_=class_, x=left, y=0, width=max(right - left - 1.5, 1), height=26)
            )
        start += count
    label = ", ".join(f"{name}: {count:,}" for name, count, _ in named)
    return _svg(_WIDTH, 26, label, parts, preserveAspectRatio="none")


def accuracy_row(contrast: Contrast) -> Markup:
    """Draw the accuracy of both runs on a part of the questions, with intervals, for a table's cell."""
    scale = _Scale(0, 100, 8, _ROW[0] - 8)
    parts = [
        _one("line", class_="grid", x1=scale.at(tick), x2=scale.at(tick), y1=0, y2=_ROW[1])
        for tick in range(0, 101, 25)
    ]
    for ratio, height, kind in ((contrast.a, 9, "a"), (contrast.b, 21, "b")):
        if ratio is not None and ratio.value is not None:
            low, high = wilson(ratio.correct, ratio.total)
            parts += [
                _whisker(scale, 100 * low, 100 * high, height, kind, thin=True),
                _dot(scale.at(100 * ratio.value), height, kind, 4.5),
            ]
    return _svg(*_ROW, f"A {_told(contrast.a)}, B {_told(contrast.b)}", parts)


def flip_row(contrast: Contrast, reach: int) -> Markup:
    """Draw what B broke to the left and what it fixed to the right, for a table's cell.

    Args:
        contrast: the part; both counts known.
        reach: the greatest count in the table, which fills half of the width.
    """
    fixed, broken = contrast.fixed or 0, contrast.broken or 0
    width, height = 150, _ROW[1]
    scale = _Scale(-max(reach, 1), max(reach, 1), 26, width - 26)
    zero = scale.at(0)
    parts = [
        _one("rect", class_="a-fill", x=scale.at(-broken), y=8, width=zero - scale.at(-broken), height=14),
        _one("rect", class_="b-fill", x=zero, y=8, width=scale.at(fixed) - zero, height=14),
        _one("line", class_="zero", x1=zero, x2=zero, y1=3, y2=height - 3),
        _one("text", f"{broken:,}", class_="small end", x=scale.at(-broken) - 4, y=19),
        _one("text", f"{fixed:,}", class_="small", x=scale.at(fixed) + 4, y=19),
    ]
    return _svg(width, height, f"broken by B {broken:,}, fixed by B {fixed:,}", parts)


def accuracy_scale() -> Markup:
    """Draw the scale over a column of `accuracy_row`."""
    scale = _Scale(0, 100, 8, _ROW[0] - 8)
    parts = [
        _one(
            "text",
            f"{tick}" + (" %" if tick == 100 else ""),
            class_=f"small quiet {side}",
            x=scale.at(tick) + nudge,
            y=12,
        )
        for tick, side, nudge in (
            (0, "middle", 0),
            (25, "middle", 0),
            (50, "middle", 0),
            (75, "middle", 0),
            (100, "end", 8),
        )
    ]
    return _svg(_ROW[0], 16, "", parts)


def _measured(scale: _Scale, side: Side, height: float) -> list[Markup]:
    kind = side.letter.lower()
    place = scale.at(100 * (side.ex.value or 0.0))
    return [
        _one("text", side.letter, class_=f"strong {kind}-text", x=4, y=height + 5),
        _whisker(scale, 100 * side.low, 100 * side.high, height, kind),
        _dot(place, height, kind, 7),
        _one("text", percent(side.ex), class_="strong middle", x=place, y=height - 13),
    ]


def _axis(scale: _Scale, top: float, bottom: float, form: str) -> Markup:
    parts = []
    for tick in scale.ticks():
        at = scale.at(tick)
        name = form.format(tick).replace("-", "\N{MINUS SIGN}").replace("+0", "0")
        parts += [
            _one("line", class_="grid", x1=at, x2=at, y1=top, y2=bottom),
            _one("text", name, class_="small quiet middle", x=at, y=bottom + 16),
        ]
    return Markup("").join(parts)


def _whisker(
    scale: _Scale, low: float, high: float, height: float, kind: str, *, thin: bool = False
) -> Markup:
    left, right, half = scale.at(low), scale.at(high), 3 if thin else 6
    path = f"M{left} {height - half}V{height + half}M{left} {height}H{right}M{right} {height - half}V{height + half}"
    return _one("path", class_=f"whisker {kind}-line" + (" thin" if thin else ""), d=path)


def _dot(place: float, height: float, kind: str, radius: float) -> Markup:
    return _one("circle", class_=f"{kind}-dot", cx=place, cy=height, r=radius)


def _told(ratio: Ratio | None) -> str:
    return "does not have this stage" if ratio is None else f"{percent(ratio)} ({counts(ratio)})"


def _svg(width: float, height: float, label: str, parts: Iterable[Markup], **more: str) -> Markup:
    named = more | {"role": "img", "aria_label": label} if label else {"aria_hidden": "true"}
    return _one(
        "svg", Markup("").join(parts), viewBox=f"0 0 {width} {height}", width=width, height=height, **named
    )


def _one(tag: str, content: str = "", **attributes: object) -> Markup:
    """Write an element; everything that is not markup already is escaped."""
    given = Markup(" ").join(
        Markup('{}="{}"').format(name.rstrip("_").replace("_", "-"), value)
        for name, value in attributes.items()
    )
    return Markup("<{0} {1}>{2}</{0}>").format(tag, given, content)

"""The charts of a nightly run's page.

The baseline is hollow and grey, this run solid and blue, or vermilion where it is a regression: distinguishable in
grey and with any colour vision.
"""

from collections.abc import Sequence
from math import ceil, floor

from markupsafe import Markup

from tasks.scoring.report import Ratio
from tasks.scoring.significance import wilson
from tasks.tracking.night.records import CONFIDENCE, Judged, Past
from tasks.tracking.pages.drawing import Scale, dot, element, svg, whisker
from tasks.wording import counts, percent

_WIDTH, _HEIGHT = 220, 34
_EDGE = 12
_TREND = (440, 150)
_LEAST_REACH = 20.0
"""Percentage points that a trend shows at least, so that noise looks like noise."""


def score_scale(entries: Sequence[Judged]) -> Scale:
    """Return one scale for the scores of a nightly run, from whole tens to whole tens around all intervals."""
    ends = [100 * end for judged in entries for ratio in _scores(judged) for end in _interval(ratio)]
    low = floor(min(ends, default=0) / 10) * 10
    high = ceil(max(ends, default=100) / 10) * 10
    return Scale(low, max(high, low + 10), _EDGE, _WIDTH - _EDGE)


def score_axis(scale: Scale) -> Markup:
    """Draw the numbers of the scale, over a column of `score_row`."""
    parts = [
        element("text", f"{tick:g} %", class_="small quiet middle", x=scale.at(tick), y=12)
        for tick in (scale.low, (scale.low + scale.high) / 2, scale.high)
    ]
    return svg(_WIDTH, 16, "", parts, class_="free")


def score_row(judged: Judged, scale: Scale) -> Markup:
    """Draw the score of this run and, above it, that of the baseline on the questions that are compared."""
    parts = [
        element("line", class_="grid", x1=scale.at(tick), x2=scale.at(tick), y1=0, y2=_HEIGHT)
        for tick in (scale.low, (scale.low + scale.high) / 2, scale.high)
    ]
    before, labels = _before(judged), []
    for name, ratio, height, kind in (
        ("baseline", before, 10, "before"),
        ("this run", judged.entry.ex, 24 if before else 17, _kind(judged)),
    ):
        if ratio is not None and ratio.value is not None:
            low, high = _interval(ratio)
            parts += [
                whisker(scale, 100 * low, 100 * high, height, kind, thin=True),
                dot(scale.at(100 * ratio.value), height, kind, 4.5),
            ]
            labels.append(f"{name} {percent(ratio)} ({counts(ratio)})")
    return svg(_WIDTH, _HEIGHT, ", ".join(labels) or "no score", parts)


def trend_line(judged: Judged) -> Markup:
    """Draw the last scores as a small line, for a table's cell; nothing below two of them."""
    trend = judged.entry.trend
    if len(trend) < 2:
        return Markup("")
    width, height = 96, _HEIGHT
    across = Scale(0, len(trend) - 1, 6, width - 6)
    up = _upright(trend, height - 6, 6, intervals=False)
    parts = [
        _path(trend, across, up),
        dot(across.at(len(trend) - 1), up.at(_value(trend[-1])), _kind(judged), 3.5),
    ]
    return svg(width, height, _in_words(trend), parts)


def trend_chart(judged: Judged) -> Markup:
    """Draw the last scores with their intervals and dates."""
    trend, (width, height) = judged.entry.trend, _TREND
    across = Scale(-0.5, len(trend) - 0.5, 48, width - 10)
    up = _upright(trend, height - 26, 10, intervals=True)
    parts = []
    for tick in up.ticks(4):
        at = up.at(tick)
        parts += [
            element("line", class_="grid", x1=48, x2=width - 10, y1=at, y2=at),
            element("text", f"{tick:g} %", class_="small quiet end", x=40, y=at + 4),
        ]
    parts.append(_path(trend, across, up))
    for place, past in enumerate(trend):
        last = place == len(trend) - 1
        kind = _kind(judged) if last else "past"
        x, (low, high) = across.at(place), past.interval
        path = f"M{x} {up.at(100 * low)}V{up.at(100 * high)}"
        tip = element("title", f"{past.started:%Y-%m-%d %H:%M} UTC: {percent(past.ex)}, {counts(past.ex)}")
        parts += [
            element("path", class_=f"whisker thin {kind}-line", d=path),
            element("circle", tip, class_=f"{kind}-dot", cx=x, cy=up.at(_value(past)), r=5 if last else 4),
        ]
    for place, side in ((0, "start"), (len(trend) - 1, "end")):
        x = across.left if side == "start" else across.right
        parts.append(
            element("text", f"{trend[place].started:%d %b}", class_=f"small quiet {side}", x=x, y=height - 6)
        )
    return svg(width, height, _in_words(trend), parts)


def _kind(judged: Judged) -> str:
    return "worse" if judged.verdict == "regression" else "now"


def _before(judged: Judged) -> Ratio | None:
    found = judged.entry.comparison
    return Ratio(found.right_a, found.questions) if found else None


def _scores(judged: Judged) -> list[Ratio]:
    return [ratio for ratio in (judged.entry.ex, _before(judged)) if ratio and ratio.total]


def _interval(ratio: Ratio) -> tuple[float, float]:
    return wilson(ratio.correct, ratio.total, CONFIDENCE)


def _value(past: Past) -> float:
    return 100 * (past.ex.value or 0.0)


def _upright(trend: Sequence[Past], bottom: float, top: float, *, intervals: bool) -> Scale:
    """Return a vertical scale around scores, or around their intervals, that shows enough of its surroundings."""
    ends = (
        [100 * end for past in trend for end in past.interval]
        if intervals
        else [_value(past) for past in trend]
    )
    low, high = min(ends), max(ends)
    spare = max(0.0, _LEAST_REACH - (high - low)) / 2
    low = max(0.0, min(low - spare, 100 - _LEAST_REACH))
    return Scale(low, min(100.0, max(high + spare, low + _LEAST_REACH)), bottom, top)


def _path(trend: Sequence[Past], across: Scale, up: Scale) -> Markup:
    points = " ".join(f"{across.at(place)},{up.at(_value(past))}" for place, past in enumerate(trend))
    return element("polyline", class_="trend", points=points)


def _in_words(trend: Sequence[Past]) -> str:
    scores = ", ".join(f"{past.started:%d %b} {percent(past.ex)}" for past in trend)
    return f"the last {len(trend)} scores: {scores}"

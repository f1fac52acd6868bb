"""The plots of a comparison's page, as SVG that takes its colours from the page.

A is vermilion, hollow or hatched; B is blue and solid: distinguishable in grey and with any colour vision.
"""

from markupsafe import Markup

from tasks.scoring.report import Ratio
from tasks.scoring.significance import PairedTest, needed_net, wilson
from tasks.tracking.comparison.records import Contrast, RunComparison, Side
from tasks.tracking.pages.drawing import Scale, axis, dot, element, svg, whisker
from tasks.wording import counts, percent, points

_WIDTH = 640
_ROW = (220, 30)


def accuracy_chart(comparison: RunComparison) -> Markup:
    """Draw the execution accuracy of both runs with their intervals."""
    sides = (comparison.a, comparison.b)
    low = max(0.0, 100 * min(side.low for side in sides) - 4)
    high = min(100.0, 100 * max(side.high for side in sides) + 4)
    scale = Scale(low, high, 34, _WIDTH - 20)
    parts = [axis(scale, 30, 118, "{:g} %")]
    for side, height in zip(sides, (52, 96), strict=True):
        parts += _measured(scale, side, height)
    label = "; ".join(f"{side.letter}: {percent(side.ex)}, {counts(side.ex)}" for side in sides)
    return svg(_WIDTH, 142, f"Execution accuracy. {label}", parts)


def difference_chart(result: PairedTest) -> Markup:
    """Draw the difference with its interval, over the band in which it is not significant."""
    net = needed_net(result.differing, result.level)
    needed = None if net is None else 100 * net / result.questions
    ends = [100 * result.low, 100 * result.high, needed or 0.0, -(needed or 0.0)]
    reach = max(1.0, 1.15 * max(abs(end) for end in ends))
    scale = Scale(-reach, reach, 20, _WIDTH - 20)
    band = reach if needed is None else needed
    height, top, bottom = 66, 34, 92
    middle = 100 * result.difference
    kind = "a" if middle < 0 else "b"
    parts = [
        element(
            "rect",
            class_="noise",
            x=scale.at(-band),
            y=top,
            width=scale.at(band) - scale.at(-band),
            height=bottom - top,
        ),
        element("text", "inside the noise", class_="small quiet middle", x=scale.at(0), y=20),
        axis(scale, top, bottom, "{:+g}"),
        element("line", class_="zero", x1=scale.at(0), x2=scale.at(0), y1=top, y2=bottom),
        element("text", "\N{LEFTWARDS ARROW} A is better", class_="small a-text", x=20, y=20),
        element("text", "B is better \N{RIGHTWARDS ARROW}", class_="small b-text end", x=_WIDTH - 20, y=20),
        whisker(scale, 100 * result.low, 100 * result.high, height, kind),
        dot(scale.at(middle), height, kind, 7),
        element("text", points(result.difference), class_="strong middle", x=scale.at(middle), y=height + 22),
    ]
    label = (
        f"B minus A: {points(result.difference)} points, {100 * result.confidence:g} % interval "
        f"{points(result.low)} to {points(result.high)}"
    )
    return svg(_WIDTH, 116, label, parts)


def outcome_bar(result: PairedTest) -> Markup:
    """Draw the questions as one bar: right in both, fixed, broken, wrong in both."""
    scale = Scale(0, max(result.questions, 1), 0, _WIDTH)
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
            tip = element("title", f"{name}: {count:,} of {result.questions:,}")
            parts.append(
                element("rect", tip, class_=class_, x=left, y=0, width=max(right - left - 1.5, 1), height=26)
            )
        start += count
    label = ", ".join(f"{name}: {count:,}" for name, count, _ in named)
    return svg(_WIDTH, 26, label, parts, preserveAspectRatio="none")


def accuracy_row(contrast: Contrast) -> Markup:
    """Draw the accuracy of both runs on a part of the questions, with intervals, for a table's cell."""
    scale = Scale(0, 100, 8, _ROW[0] - 8)
    parts = [
        element("line", class_="grid", x1=scale.at(tick), x2=scale.at(tick), y1=0, y2=_ROW[1])
        for tick in range(0, 101, 25)
    ]
    for ratio, height, kind in ((contrast.a, 9, "a"), (contrast.b, 21, "b")):
        if ratio is not None and ratio.value is not None:
            low, high = wilson(ratio.correct, ratio.total)
            parts += [
                whisker(scale, 100 * low, 100 * high, height, kind, thin=True),
                dot(scale.at(100 * ratio.value), height, kind, 4.5),
            ]
    return svg(*_ROW, f"A {_in_words(contrast.a)}, B {_in_words(contrast.b)}", parts)


def flip_row(contrast: Contrast, reach: int) -> Markup:
    """Draw what B broke to the left and what it fixed to the right, for a table's cell.

    Args:
        contrast: the part; both counts known.
        reach: the greatest count in the table, which fills half of the width.
    """
    fixed, broken = contrast.fixed or 0, contrast.broken or 0
    width, height = 150, _ROW[1]
    scale = Scale(-max(reach, 1), max(reach, 1), 26, width - 26)
    zero = scale.at(0)
    parts = [
        element("rect", class_="a-fill", x=scale.at(-broken), y=8, width=zero - scale.at(-broken), height=14),
        element("rect", class_="b-fill", x=zero, y=8, width=scale.at(fixed) - zero, height=14),
        element("line", class_="zero", x1=zero, x2=zero, y1=3, y2=height - 3),
        element("text", f"{broken:,}", class_="small end", x=scale.at(-broken) - 4, y=19),
        element("text", f"{fixed:,}", class_="small", x=scale.at(fixed) + 4, y=19),
    ]
    return svg(width, height, f"broken by B {broken:,}, fixed by B {fixed:,}", parts)


def accuracy_scale() -> Markup:
    """Draw the scale over a column of `accuracy_row`."""
    scale = Scale(0, 100, 8, _ROW[0] - 8)
    parts = [
        element(
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
    return svg(_ROW[0], 16, "", parts)


def _measured(scale: Scale, side: Side, height: float) -> list[Markup]:
    kind = side.letter.lower()
    place = scale.at(100 * (side.ex.value or 0.0))
    return [
        element("text", side.letter, class_=f"strong {kind}-text", x=4, y=height + 5),
        whisker(scale, 100 * side.low, 100 * side.high, height, kind),
        dot(place, height, kind, 7),
        element("text", percent(side.ex), class_="strong middle", x=place, y=height - 13),
    ]


def _in_words(ratio: Ratio | None) -> str:
    return "does not have this stage" if ratio is None else f"{percent(ratio)} ({counts(ratio)})"

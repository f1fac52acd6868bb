"""Charts of a report as SVG files: execution accuracy by stage, and the questions that each stage fixed and broke.

They are drawn with the parts of the pages' charts, with the pages' colours on white: MLflow shows a file as an image.
"""

from collections.abc import Iterable, Iterator, Sequence

from markupsafe import Markup

from tasks.scoring.report import Report
from tasks.tracking.pages.drawing import Scale, element, svg
from tasks.wording import counts, percent, signed

_LEFT, _TOP, _BOTTOM, _COLUMN, _BAR = 60, 92, 330, 132, 70
_LEAST_WIDTH, _HEIGHT = 560, 400
_STYLE = Markup(
    "text{font:12px system-ui,sans-serif;fill:#1d2125}.strong{font-weight:650;font-size:14px}.title{font-size:17px;"
    "font-weight:650}.quiet{fill:#5d666f}.middle{text-anchor:middle}.end{text-anchor:end}.grid{stroke:#e1e3e1}"
    ".zero{stroke:#5d666f}.paper{fill:#fff}.fixed{fill:#00629e}.broken{fill:url(#hatch)}"
)
_HATCH = Markup(  # vermilion hatched beside solid blue: distinguishable in grey and with any colour vision
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<path fill="#b84300" d="M0 0h6v6H0z"/><path stroke="#fff" stroke-width="2" d="M0 0v6"/></pattern></defs>'
)


def stage_figure(report: Report, title: str) -> bytes | None:
    """Draw execution accuracy after each stage, with numerators and denominators; None without a stage."""
    stages = [stage for stage in report.stages if stage.ex.value is not None]
    if not stages:
        return None
    up = Scale(0, 100, _BOTTOM, _TOP)
    parts = [_grid(up, up.ticks(5), len(stages), "{:g} %")]
    for place, stage in enumerate(stages):
        parts += [
            _bar(up, place, 100 * (stage.ex.value or 0.0), "fixed"),
            *_value(up, place, 100 * (stage.ex.value or 0.0), percent(stage.ex), counts(stage.ex)),
            *_name(place, _lines(stage.name)),
        ]
    heading = f"Execution accuracy by stage, rule “{report.rule}”"
    return _file(heading, title, len(stages), parts)


def change_figure(report: Report, title: str) -> bytes | None:
    """Draw the questions that each stage fixed and broke against the stage before; None below two stages.

    Each count stands beside its denominator: the questions that were wrong, or right, before the stage.
    """
    changes = [
        (stage.name, stage.fixed, stage.broken, before.ex)
        for before, stage in zip(report.stages, report.stages[1:], strict=False)
        if stage.fixed is not None and stage.broken is not None
    ]
    if not changes:
        return None
    reach = max(*(max(fixed, broken) for _, fixed, broken, _ in changes), 1)
    up = Scale(-1.4 * reach, 1.4 * reach, _BOTTOM, _TOP)
    parts = [_grid(up, [tick for tick in up.ticks(6) if tick == round(tick)], len(changes), "{:,.0f}")]
    for place, (name, fixed, broken, before) in enumerate(changes):
        parts += [
            _bar(up, place, fixed, "fixed"),
            _bar(up, place, -broken, "broken"),
            *_value(up, place, fixed, signed(fixed), f"of {before.total - before.correct:,g} wrong before"),
            *_value(up, place, -broken, signed(-broken), f"of {before.correct:,g} right before", below=True),
            *_name(place, [*_lines(name), f"net {signed(fixed - broken)}"]),
        ]
    keys = ((_LEFT, "fixed", "fixed"), (_LEFT + 70, "broken", f"broken, of {report.scored:,} questions"))
    for x, kind, text in keys:
        parts += [
            element("rect", class_=kind, x=x, y=60, width=12, height=12),
            element("text", text, x=x + 18, y=70),
        ]
    return _file("Questions fixed and broken by each stage", title, len(changes), parts)


def _middle(place: int) -> float:
    return _LEFT + _COLUMN * (place + 0.5)


def _bar(up: Scale, place: int, value: float, kind: str) -> Markup:
    ends = sorted((up.at(0), up.at(value)))
    left = _middle(place) - _BAR / 2
    return element("rect", class_=kind, x=left, y=ends[0], width=_BAR, height=round(ends[1] - ends[0], 2))


def _value(
    up: Scale, place: int, value: float, text: str, of: str, *, below: bool = False
) -> Iterator[Markup]:
    """Write a value and, smaller, its denominator beyond the end of a bar."""
    near, far = (32, 17) if below else (-6, -21)
    x, end = _middle(place), up.at(value)
    yield element("text", text, class_="strong middle", x=x, y=end + far)
    yield element("text", of, class_="quiet middle", x=x, y=end + near)


def _name(place: int, lines: Sequence[str]) -> Iterator[Markup]:
    for number, line in enumerate(lines):
        yield element("text", line, class_="middle", x=_middle(place), y=_BOTTOM + 20 + 16 * number)


def _grid(up: Scale, ticks: Iterable[float], columns: int, form: str) -> Markup:
    right = _LEFT + _COLUMN * columns
    parts = []
    for tick in ticks:
        kind, at = "grid" if tick else "zero", up.at(tick)
        parts += [
            element("line", class_=kind, x1=_LEFT, x2=right, y1=at, y2=at),
            element("text", form.format(abs(tick)), class_="quiet end", x=_LEFT - 8, y=at + 4),
        ]
    return Markup("").join(parts)


def _lines(stage: str) -> list[str]:
    """Return a stage's name as the lines of a label: its number on a line of its own."""
    number, _, rest = stage.partition("_")
    words = " ".join(word.upper() if word == "sql" else word for word in rest.split("_"))
    return [number, words] if number.isdigit() else [stage.replace("_", " ")]


def _file(heading: str, detail: str, columns: int, parts: Sequence[Markup]) -> bytes:
    width = max(_LEAST_WIDTH, _LEFT + _COLUMN * columns + 20)
    drawn = [
        element("style", _STYLE),
        _HATCH,
        element("rect", class_="paper", width=width, height=_HEIGHT),
        element("text", heading, class_="title", x=16, y=28),
        element("text", detail, class_="quiet", x=16, y=48),
        *parts,
    ]
    return svg(width, _HEIGHT, heading, drawn, xmlns="http://www.w3.org/2000/svg").encode("utf-8", "replace")

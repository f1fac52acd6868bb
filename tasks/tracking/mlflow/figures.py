"""Figures of a report as SVG files: execution accuracy by stage, and the questions that each stage fixed and broke.

They have the colours of the pages on white: MLflow shows a file as an image.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tasks.core.wording import counts, percent, signed
from tasks.documents.html import Scale, render
from tasks.scoring.report import Report

_LEFT, _COLUMN, _TOP, _BOTTOM = 60, 132, 92, 330
_LEAST_WIDTH = 560


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar: its value, what it counts ("fixed" or "broken"), the value as text, and its denominator."""

    value: float
    kind: str
    text: str
    of: str


@dataclass(frozen=True, slots=True)
class Column:
    """The bars of a stage, above the lines of its name; `middle` is its place across, in pixels."""

    middle: float
    lines: Sequence[str]
    bars: Sequence[Bar]


def stage_figure(report: Report, title: str) -> bytes | None:
    """Draw execution accuracy after each stage, with numerators and denominators; None without a stage."""
    stages = [stage for stage in report.stages if stage.ex is not None]
    columns = [
        Column(
            _LEFT + _COLUMN * (place + 0.5),
            _lines(stage.name),
            [Bar(100 * (stage.ex or 0.0), "fixed", percent(stage), counts(stage))],
        )
        for place, stage in enumerate(stages)
    ]
    up = Scale(0, 100, _BOTTOM, _TOP)
    heading = f"Execution accuracy by stage, rule “{report.rule}”"
    return _draw(columns, heading=heading, detail=title, up=up, ticks=up.ticks(5), form="{:g} %", keys=())


def change_figure(report: Report, title: str) -> bytes | None:
    """Draw the questions that each stage fixed and broke against the stage before; None below two stages.

    Each count stands beside its denominator: the questions that were wrong, or right, before the stage.
    """
    changes = [
        (stage.name, stage.fixed, stage.broken, before)
        for before, stage in zip(report.stages, report.stages[1:], strict=False)
        if stage.fixed is not None and stage.broken is not None
    ]
    columns = [
        Column(
            _LEFT + _COLUMN * (place + 0.5),
            [*_lines(name), f"net {signed(fixed - broken)}"],
            [
                Bar(fixed, "fixed", signed(fixed), f"of {before.total - before.correct:,g} wrong before"),
                Bar(-broken, "broken", signed(-broken), f"of {before.correct:,g} right before"),
            ],
        )
        for place, (name, fixed, broken, before) in enumerate(changes)
    ]
    reach = max([max(fixed, broken) for _, fixed, broken, _ in changes], default=0) or 1
    up = Scale(-1.4 * reach, 1.4 * reach, _BOTTOM, _TOP)
    keys = (("fixed", _LEFT, "fixed"), ("broken", _LEFT + 70, f"broken, of {report.scored:,} questions"))
    ticks = [tick for tick in up.ticks(6) if tick == round(tick)]
    heading = "Questions fixed and broken by each stage"
    return _draw(columns, heading=heading, detail=title, up=up, ticks=ticks, form="{:,.0f}", keys=keys)


def _draw(columns: Sequence[Column], **content: Any) -> bytes | None:
    if not columns:
        return None
    right = _LEFT + _COLUMN * len(columns)
    size = {"width": max(_LEAST_WIDTH, right + 20), "right": right}
    return render("bar_chart.svg.jinja", columns=columns, **size, **content).encode("utf-8", "replace")


def _lines(stage: str) -> list[str]:
    """Return a stage's name as the lines of a label: its number on a line of its own."""
    number, _, rest = stage.partition("_")
    words = " ".join(word.upper() if word == "sql" else word for word in rest.split("_"))
    return [number, words] if number.isdigit() else [stage.replace("_", " ")]

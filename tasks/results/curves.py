"""Charts of execution accuracy against money, over the number of candidates, and over an agent's turns."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor
from typing import Any

from tasks.core.wording import amount, counted, money, percent, rounded
from tasks.documents.model import Block, Bullets, Columns, Figure, Line, LinePoint, Lines, Section
from tasks.scoring.candidates import UNITS
from tasks.scoring.metrics.turns import TABLE_TURNS, cost_in_words, shown_points
from tasks.scoring.scores import Accuracy

TICKS = 5


@dataclass(frozen=True, slots=True)
class Priced:
    """A system on the same questions as the others."""

    name: str
    ex: Accuracy
    usd: float  # cost of all its answers from scratch


def pareto_front(systems: Sequence[Priced]) -> tuple[Priced, ...]:
    """Return the systems that no other one beats: none is as cheap and better, or as good and cheaper.

    They come from the cheapest to the most expensive, and from the lowest score to the highest. Of systems that are
    equal in both, all are returned.

    >>> systems = [Priced(n, Accuracy(right, 10), usd) for n, right, usd in [("a", 5, 1), ("b", 4, 2), ("c", 6, 3)]]
    >>> [system.name for system in pareto_front(systems)]
    ['a', 'c']
    """
    front: list[Priced] = []
    for system in sorted(systems, key=lambda system: (system.usd, -system.ex.correct, system.name)):
        best = front[-1] if front else None
        equal = best is not None and (best.usd, best.ex.correct) == (system.usd, system.ex.correct)
        if best is None or equal or system.ex.correct > best.ex.correct:
            front.append(system)
    return tuple(front)


def pareto_blocks(systems: Sequence[Priced]) -> Iterator[Block]:
    """Yield a section with the front in words, and on pages as a chart.

    Nothing is yielded if fewer than two systems cost anything.
    """
    scored = [system for system in systems if system.ex.total]
    if sum(system.usd > 0 for system in scored) < 2:
        return
    front = pareto_front(scored)
    labels = tuple(f"{system.name}: {percent(system.ex)}, {money(system.usd)}" for system in front)
    others = [system for system in scored if system not in front]
    single_points = [Line((_point(system, "past"),), "past") for system in others]
    lines = (*single_points, Line(tuple(_front_points(front)), "now", dashed=True))
    label = f"Execution accuracy against cost; not beaten in both: {'; '.join(labels)}"
    max_usd = max(system.usd for system in scored)
    ticks = tuple((max_usd * n / TICKS, f"${rounded(max_usd * n / TICKS)}") for n in range(TICKS + 1))
    figure = Figure(
        "Execution accuracy against cost from scratch, with 95 % intervals; the line joins the systems that no other "
        "one beats in both",
        Lines(lines, label, ticks, "US dollars from scratch"),
    )
    words = Section("No other system is as cheap and better, or as good and cheaper", (Bullets(labels),))
    yield Section("Score against cost from scratch", (Columns((figure, words)),))


def _front_points(front: Sequence[Priced]) -> Iterator[LinePoint]:
    """Yield the points of a front; those that are equal in both have one label."""
    for _, alike in groupby(front, lambda system: (system.usd, system.ex.correct)):
        first, *others = alike
        yield _point(first, "now", ", ".join(system.name for system in (first, *others)))
        yield from (_point(system, "now") for system in others)


def _point(system: Priced, kind: str, label: str = "") -> LinePoint:
    value, low, high = (100 * (share or 0.0) for share in (system.ex.ex, system.ex.low, system.ex.high))
    tip = f"{system.name}: {percent(system.ex)}, {money(system.usd)}"
    return LinePoint(system.usd, value, low, high, kind, tip, label)


_TITLES = {"usd": "USD per question", "tokens": "tokens per question", "calls": "calls per question"}


def candidate_chart(runs: Sequence[tuple[str, str, Mapping[str, Any] | None]]) -> Lines | None:
    """Return the chart of the runs that have candidates; None where none has.

    A run is given as the style of its lines (`kind`), its name and the object "candidates" of its summary. The line of
    pass@k is dashed, that of majority@k solid, with intervals. The x axis is the cost per question, in the first of
    `UNITS` in which the cost of every run is known and not 0, else in calls.
    """
    curves = [(kind, name, data["curve"]) for kind, name, data in runs if data]
    if not curves:
        return None
    unit = next((unit for unit in UNITS if all(curve[-1][unit] for _, _, curve in curves)), "calls")
    lines, sentences = [], []
    for kind, name, curve in curves:
        points = tuple(_candidate_point(point, unit, kind, name) for point in curve)
        passes = [100 * point["pass"]["value"] for point in curve]
        passed = tuple(
            LinePoint(majority.x, y, low=y, high=y, kind=kind)
            for majority, y in zip(points, passes, strict=True)
        )
        lines += [Line(passed, kind, dashed=True, marked=False), Line(points, kind)]
        first, last = points[0], points[-1]
        sentences.append(
            f"{name}: {first.y:.1f} % with one candidate, {last.y:.1f} % by majority of {last.label}"
        )
    ticks = _round_steps(max(line.points[-1].x for line in lines) or 1.0)
    label = f"Execution accuracy against {_TITLES[unit]}. {'; '.join(sentences)}"
    return Lines(tuple(lines), label, tuple((tick, amount(tick)) for tick in ticks), _TITLES[unit])


def _candidate_point(point: Mapping[str, Any], unit: str, kind: str, name: str) -> LinePoint:
    majority = point["majority"]
    cost = point[unit] or 0.0
    low, high = majority["interval"]
    tip = (
        f"{name}: k = {point['k']}, majority {100 * majority['value']:.2f} % ({100 * low:.1f} to {100 * high:.1f} %), "
        f"pass {100 * point['pass']['value']:.2f} %, {amount(cost)} {_TITLES[unit]}"
    )
    y = 100 * majority["value"]
    label = str(point["k"])
    return LinePoint(cost, y, 100 * low, 100 * high, kind=kind, tip=tip, label=label, emphasised=True)


def _round_steps(most: float) -> tuple[float, ...]:
    """Return at most six multiples of a round step (1, 2 or 5 times a power of ten) from 0 to the highest cost.

    >>> _round_steps(0.0123), _round_steps(8)
    ((0.0, 0.005, 0.01), (0.0, 2.0, 4.0, 6.0, 8.0))
    """
    round_steps = (digit * 10.0**power for power in range(-9, 12) for digit in (1, 2, 5))
    step = next(step for step in round_steps if most / step <= 5)
    # .6g: 0.3 in place of 0.30000000000000004
    return tuple(float(f"{multiple * step:.6g}") for multiple in range(floor(most / step) + 1))


CAPTION = (
    "Execution accuracy if the agent is stopped after a turn, of all scored questions, with 95 % intervals"
)


def turn_chart(data: Mapping[str, Any] | None) -> Lines | None:
    """Return the chart of a run's object "turns"; None without turns."""
    if not data:
        return None
    curve = data["curve"]
    line = Line(tuple(_turn_point(point) for point in curve), "b")
    first, last = curve[0], curve[-1]
    start, end = (f"{100 * point['value']:.1f} % after turn {point['turn']}" for point in (first, last))
    label = f"{CAPTION}: {start}, {end}"
    ticks = tuple((float(point["turn"]), str(point["turn"])) for point in shown_points(data))
    return Lines((line,), label, ticks, "turn", dense=len(curve) > max(TABLE_TURNS))


def _turn_point(turn: Mapping[str, Any]) -> LinePoint:
    low, high = turn["interval"]
    tip = (
        f"stopped after turn {turn['turn']}: {100 * turn['value']:.2f} % ({100 * low:.1f} to {100 * high:.1f} %), "
        f"{counted(turn['running'], 'question')} still running, {cost_in_words(turn)} per question"
    )
    return LinePoint(
        x=float(turn["turn"]),
        y=100 * turn["value"],
        low=100 * low,
        high=100 * high,
        kind="b",  # drawn as side B of a comparison
        tip=tip,
        label=str(turn["turn"]),
    )

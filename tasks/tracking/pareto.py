"""Execution accuracy against money: which systems no other one beats in both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from tasks.core.wording import money, percent
from tasks.documents.charts import Line, LinePoint, Lines
from tasks.documents.model import Block, Bullets, Columns, Figure, Section
from tasks.scoring.score import Accuracy

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
    >>> [each.name for each in pareto_front(systems)]
    ['a', 'c']
    """
    front: list[Priced] = []
    for each in sorted(systems, key=lambda one: (one.usd, -one.ex.correct, one.name)):
        best = front[-1] if front else None
        equal = best is not None and (best.usd, best.ex.correct) == (each.usd, each.ex.correct)
        if best is None or equal or each.ex.correct > best.ex.correct:
            front.append(each)
    return tuple(front)


def pareto_blocks(systems: Sequence[Priced]) -> Iterator[Block]:
    """Yield a section with the front in words, and on pages as a chart.

    Nothing is yielded if fewer than two systems cost anything.
    """
    known = [each for each in systems if each.ex.total]
    if sum(each.usd > 0 for each in known) < 2:
        return
    front = pareto_front(known)
    named = tuple(f"{each.name}: {percent(each.ex)}, {money(each.usd)}" for each in front)
    others = [each for each in known if each not in front]
    lines = (
        *(Line((_point(each, "past"),), "past") for each in others),
        Line(tuple(_front_points(front)), "now", dashed=True),
    )
    most = max(each.usd for each in known)
    ticks = tuple((most * n / TICKS, f"${most * n / TICKS:,.2g}") for n in range(TICKS + 1))
    figure = Figure(
        "Execution accuracy against cost from scratch, with 95 % intervals; the line joins the systems that no other "
        "one beats in both",
        Lines(
            lines,
            f"Execution accuracy against cost; not beaten in both: {'; '.join(named)}",
            ticks,
            "US dollars from scratch",
        ),
    )
    words = Section("No other system is as cheap and better, or as good and cheaper", (Bullets(named),))
    yield Section("Score against cost from scratch", (Columns((figure, words)),))


def _front_points(front: Sequence[Priced]) -> Iterator[LinePoint]:
    """Yield the points of a front; those that are equal in both have one label."""
    for _, alike in groupby(front, lambda each: (each.usd, each.ex.correct)):
        first, *others = alike
        yield _point(first, "now", ", ".join(each.name for each in (first, *others)))
        yield from (_point(each, "now") for each in others)


def _point(each: Priced, kind: str, label: str = "") -> LinePoint:
    value, low, high = (100 * (share or 0.0) for share in (each.ex.ex, each.ex.low, each.ex.high))
    tip = f"{each.name}: {percent(each.ex)}, {money(each.usd)}"
    return LinePoint(each.usd, value, low, high, kind, tip, label)

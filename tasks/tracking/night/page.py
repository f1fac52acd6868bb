"""A nightly run as one self-contained HTML page."""

import datetime
from collections.abc import Iterable, Sequence

from tasks.documents.html import Scale
from tasks.scoring.significance import CONFIDENCE, wilson
from tasks.tracking.night import sentences as words
from tasks.tracking.night.detail import Detail, details
from tasks.tracking.night.entry import Past
from tasks.tracking.night.night import WORSE, Judged, Night
from tasks.tracking.night.tables import efficiencies, measured
from tasks.tracking.pages.template import around, fill
from tasks.tracking.warehouse.runs import Warehouse

BROKEN_SHOWN, FIXED_SHOWN, UNANSWERED_SHOWN = 20, 10, 10
"""Questions of one evaluation that the page shows at most; a command shows all of them."""
DENSE = 30
"""Scores of a trend beyond which its chart is wide, with a band instead of an interval each."""
GLANCE_SHOWN = 4
"""Evaluations that the first screen names."""
LEAST_REACH = 20.0
"""Percentage points that a trend shows at least, so that noise looks like noise."""


_ORDER = {"Red": 0, "Amber": 1, "No baseline yet": 2, "Green": 3}


def render(night: Night, warehouse: Warehouse, board: str = "") -> str:
    """Return the HTML page, which lists runs that the warehouse lacks.

    `board` is the address of the leaderboard, relative to the page; "": there is none.
    """
    placed = list(enumerate(details(night.entries, warehouse), 1))
    return fill(
        "night.html.jinja",
        ["page.css", "night.css"],
        night=night,
        board=board,
        facts=list(words.facts(night)),
        worst_first=sorted(placed, key=lambda each: _ORDER[each[1].judged.colour]),
        scale=_score_scale(night.entries),
        trend_scale=_trend_scale,
        time_scale=_time_scale,
        date_ticks=_date_ticks,
        DENSE=DENSE,
        words=words,
        efficiencies=efficiencies(night),
        measured=measured,
        changes=_changes,
        badge=_badge,
        confidence=f"{100 * CONFIDENCE:g} %",
        test_confidence=f"{100 * (1 - night.gate.level):g} %",
        paid=sum(each.entry.calls or 0 for each in night.entries),
        cached=sum(each.entry.cached_calls or 0 for each in night.entries),
        spent=_spent(night),
        unanswered_shown=UNANSWERED_SHOWN,
        worse=WORSE,
        lost=sum(each.entry.unanswered for each in night.entries),
        todo=list(words.todo(night)),
        glance_shown=GLANCE_SHOWN,
    )


def _changes(detail: Detail) -> list[tuple[str, int, tuple[object, ...]]]:
    """Return the label, the number and the first items of the broken and of the fixed questions."""
    found = detail.judged.entry.comparison
    if found is None:
        return []
    kinds = (
        ("broken", found.broken, detail.broken[:BROKEN_SHOWN]),
        ("fixed", found.fixed, detail.fixed[:FIXED_SHOWN]),
    )
    return [(name, len(ids), shown) for name, ids, shown in kinds if ids]


def _badge(judged: Judged) -> str:
    return judged.verdict.replace(" ", "-")


def _score_scale(entries: Sequence[Judged]) -> Scale:
    """Return one scale for the scores of a nightly run, around all intervals."""
    ratios = [
        ratio for each in entries for ratio in (each.entry.ex, each.entry.before) if ratio and ratio.total
    ]
    ends = [100 * end for ratio in ratios for end in wilson(ratio.correct, ratio.total)]
    return around(ends, 12, 208)


def _trend_scale(values: Iterable[float], bottom: float, top: float) -> Scale:
    """Return a vertical scale around percentages that shows enough of their surroundings."""
    ends = list(values)
    low, high = min(ends), max(ends)
    spare = max(0.0, LEAST_REACH - (high - low)) / 2
    low = max(0.0, min(low - spare, 100 - LEAST_REACH))
    return Scale(low, min(100.0, max(high + spare, low + LEAST_REACH)), bottom, top)


def _time_scale(trend: Sequence[Past], left: float, right: float) -> Scale:
    """Return a horizontal scale from the first score to the last, by time."""
    first, last = trend[0].started.timestamp(), trend[-1].started.timestamp()
    return Scale(first, max(last, first + 1), left + 8, right - 8)


def _date_ticks(trend: Sequence[Past], wanted: int) -> list[datetime.datetime]:
    """Return moments from the first score to the last, evenly."""
    first, whole = trend[0].started, trend[-1].started - trend[0].started
    return [first + whole * place / (wanted - 1) for place in range(wanted)]


def _spent(night: Night) -> float | None:
    """Return the cost of the nightly run; None if that of one evaluation is unknown."""
    costs = [each.entry.cost_usd for each in night.entries if each.entry.calls is not None]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None

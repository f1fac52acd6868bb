"""A nightly run as one self-contained HTML page."""

from tasks.tracking.night import charts
from tasks.tracking.night import sentences as words
from tasks.tracking.night.detail import Detail, details
from tasks.tracking.night.records import CONFIDENCE, Judged, Night
from tasks.tracking.pages.template import fill
from tasks.tracking.warehouse.runs import Warehouse

BROKEN_SHOWN, FIXED_SHOWN, UNANSWERED_SHOWN = 20, 10, 10
"""Questions of one evaluation that the page shows at most; a command shows all of them."""


def render(night: Night, warehouse: Warehouse) -> str:
    """Return the HTML page.

    Args:
        night: the nightly run with its scores and verdicts.
        warehouse: the runs' questions, stages and causes; the page lists missing runs.
    """
    placed = list(enumerate(details(night.entries, warehouse), 1))
    return fill(
        "night.html.jinja",
        ["page.css", "night.css"],
        night=night,
        facts=list(words.facts(night)),
        worst_first=sorted(placed, key=lambda each: not each[1].judged.red),
        scale=charts.score_scale(night.entries),
        charts=charts,
        words=words,
        changes=_changes,
        badge=_badge,
        confidence=f"{100 * CONFIDENCE:g} %",
        test_confidence=f"{100 * (1 - night.gate.level):g} %",
        paid=sum(each.entry.calls or 0 for each in night.entries),
        cached=sum(each.entry.cached_calls or 0 for each in night.entries),
        spent=_spent(night),
        unanswered_shown=UNANSWERED_SHOWN,
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


def _spent(night: Night) -> float | None:
    """Return the cost of the nightly run; None if that of one evaluation is unknown."""
    costs = [each.entry.cost_usd for each in night.entries if each.entry.calls is not None]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None

"""The tables of a nightly run: scores and costs."""

from collections.abc import Sequence
from math import ceil

from tasks.core.wording import (
    DASH,
    counts,
    duration,
    interval,
    money,
    number,
    p_value,
    percent,
    points,
    seconds,
)
from tasks.documents.charts import Point, Points, Sparkline
from tasks.documents.model import Cell, Column, Inline, Legend, Span, Table
from tasks.scoring.score import CONFIDENCE
from tasks.tracking.comparison.score_plots import axis_around, score_plot
from tasks.tracking.night import sentences as words
from tasks.tracking.night.entry import Entry
from tasks.tracking.night.evaluation import badge, kind, trend_in_words
from tasks.tracking.night.night import Night


def scores_table(night: Night) -> Table:
    """Return the score of every evaluation and its comparison with the baseline."""
    axis = axis_around(ex for each in night.entries for ex in (each.ex, each.before))
    titles = {name: score.title for each in night.entries for name, score in each.variants.items()}
    headers = (
        *_NAMES, Column("verdict", "text", brief=True), Column("EX", brief=True), Column("right", under=True),
        Column(f"{100 * CONFIDENCE:g} % interval", under=True, brief=True),
        *(Column(title, under=True, help=title) for title in titles.values()),
        Column("Baseline and this run", "plot", axis=axis), Column("difference"),
        Column(f"{100 * (1 - night.gate.level):g} % interval", under=True),
        Column("difference in points", "plot", axis=_around_zero(night.entries)), Column("broken"),
        Column("fixed", under=True, help="fixed"),
        Column("p (Holm)", help="p of the gate's test, adjusted for the number of comparisons of the night (Holm)"),
        Column("trend", "plot"), Column("baseline", "text", text_only=True),
    )  # fmt: skip
    rows = tuple(
        (
            *_names(place, entry), badge(entry), percent(entry.ex), counts(entry.ex),
            interval(*entry.ex.interval) if entry.ex and entry.ex.interval else "",
            *(_share(entry, name) for name in titles),
            score_plot(("baseline", entry.before, "before"), ("this run", entry.ex, kind(entry))),
            *_difference(entry, night.gate.level), _trend(entry), entry.baseline or "none",
        )
        for place, entry in night.worst_first
    )  # fmt: skip
    return Table("Scores", headers, rows, keep=7, wide=True)


_NAMES = (
    Column("pipeline", "text"),
    Column("backbone", "text", under=True),
    Column("benchmark", "text", under=True),
)


def _names(place: int, entry: Entry) -> tuple[Span, str, str]:
    return Span(entry.pipeline, link=f"#evaluation-{place}"), entry.backbone, entry.benchmark


def _share(entry: Entry, name: str) -> str:
    score = entry.variants.get(name)
    return f"{percent(score)} ({counts(score)})" if score else ""


def _difference(entry: Entry, level: float) -> tuple[Cell, ...]:
    found = entry.comparison
    if not found:
        return DASH, "", "", DASH, "", DASH
    flipped = number(len(found.broken)), number(len(found.fixed))
    proven = entry.adjusted_p is not None and entry.adjusted_p < level
    p = Span(p_value(entry.adjusted_p), "strong" if proven else "", help=f"{p_value(found.p_value)} alone")
    low, high = points(found.low), points(found.high)
    shares = (100 * found.difference, 100 * found.low, 100 * found.high)
    plot = Points((Point(*shares, kind(entry)),), f"{points(found.difference)} points, {low} to {high}")
    return points(found.difference), f"{low} to {high}", plot, *flipped, p


def _around_zero(entries: Sequence[Entry]) -> tuple[float, float]:
    """Return an axis of points to both sides of 0 that has the intervals of all differences."""
    ends = [
        abs(100 * end) for each in entries if (found := each.comparison) for end in (found.low, found.high)
    ]
    reach = max(5, 5 * ceil(max(ends, default=0) / 5))
    return -reach, reach


def _trend(entry: Entry) -> Sparkline | str:
    if len(entry.trend) < 2:
        return ""
    values = tuple(100 * (past.ex.ex or 0.0) for past in entry.trend)
    return Sparkline(values, kind(entry), trend_in_words(entry.trend))


def scores_legend(night: Night) -> Legend:
    """Return what the kinds of points mean."""
    return Legend((
        ("before", "baseline, on the questions that both runs have an answer to"),
        ("now", "this run"),
        ("doubt", "this run, amber"),
        ("worse", "this run, a regression"),
        ("", f"EX with {100 * CONFIDENCE:g} % intervals (Wilson); differences in points with "
             f"{100 * (1 - night.gate.level):g} % intervals (paired bootstrap)"),
    ))  # fmt: skip


def costs_table(night: Night) -> Table:
    """Return the calls, the money and the time of every evaluation, and its efficiency where that was measured."""
    measured = tuple(dict.fromkeys(name for entry in night.entries for name in entry.efficiency))
    headers = (
        *_NAMES, Column("calls paid"), Column("cached calls"), Column("paid", brief=True),
        Column("from scratch", help="what the same answers cost without cached replies"),
        Column("forecast", help="estimated before the first question, without cached replies"),
        Column("median", help="median seconds of a paid call"),
        Column("p95", help="95 of 100 paid calls took no longer"),
        Column("took"), Column("without an answer", "text"), *(Column(name) for name in measured),
    )  # fmt: skip
    rows: list[tuple[Inline, ...] | None] = [
        (
            entry.pipeline, entry.backbone, entry.benchmark,
            *(number(calls, missing=DASH) for calls in (entry.cost.calls, entry.cost.cached_calls)),
            DASH if entry.cost.calls is None else money(entry.cost.cost_usd),
            *(DASH if usd is None else money(usd) for usd in (entry.cost.from_scratch_usd, entry.forecast_usd)),
            seconds(entry.cost.p50_s), seconds(entry.cost.p95_s), duration(entry.seconds), words.failures(entry),
            *(f"{entry.efficiency[name]:.2f}" if name in entry.efficiency else DASH for name in measured),
        )
        for entry in night.entries
    ]  # fmt: skip
    if len(rows) > 1:
        cost = night.cost
        total = ("all", "", "", number(cost.calls), number(cost.cached_calls), money(cost.cost_usd),
                 money(cost.from_scratch_usd), money(night.forecast_usd))  # fmt: skip
        rows += [None, (*total, *[""] * (len(headers) - len(total)))]
    remark = "Cached calls were answered by the cache or by an earlier run. Seconds are of paid calls."
    if saved := words.saved(night.cost):
        remark = f"{remark} {saved}."
    if earlier := words.earlier(night):
        remark = f"{remark} {earlier}."
    return Table("Cost and failures", headers, tuple(rows), remark, keep=4, wide=True)

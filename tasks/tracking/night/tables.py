"""The tables of a nightly run as plain cells: rendered by the terminal and in Markdown."""

from dataclasses import dataclass

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
from tasks.scoring.significance import CONFIDENCE
from tasks.tracking.night.entry import Entry
from tasks.tracking.night.night import Judged, Night
from tasks.tracking.night.sentences import failures


@dataclass(frozen=True, slots=True)
class Row:
    """One evaluation in a table, with the cells beside its name."""

    judged: Judged
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Evaluations of a nightly run; `columns` name the cells of each row."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def scores(night: Night, *, with_baseline: bool = False) -> Table:
    """Return the score of every evaluation and its comparison with the baseline; on request, the baseline's run id."""
    corrected = any(judged.entry.corrected for judged in night.entries)
    columns = (
        "verdict", "EX", "right", f"{100 * CONFIDENCE:g} % interval", "difference",
        f"{100 * (1 - night.gate.level):g} % interval", "fixed", "broken", "p (Holm)",
        *(("EX, corrected golds", "right") if corrected else ()),
    )  # fmt: skip
    rows = tuple(
        Row(judged, (*_score(judged), *(_corrected(judged.entry) if corrected else ())))
        for judged in night.entries
    )
    if not with_baseline:
        return Table(columns, rows)
    named = tuple(Row(row.judged, (*row.cells, row.judged.entry.baseline or "none")) for row in rows)
    return Table((*columns, "baseline"), named)


def costs(night: Night) -> Table:
    """Return the calls, the money and the time of every evaluation, and its efficiency where that was measured."""
    columns = ("calls paid", "cached calls", "paid", "median", "p95", "took", "without an answer")
    names = efficiencies(night)
    rows = (
        Row(judged, (*_cost(judged), *(measured(judged.entry, name) for name in names)))
        for judged in night.entries
    )
    return Table((*columns, *names), tuple(rows))


def efficiencies(night: Night) -> tuple[str, ...]:
    """Return the names of the efficiencies that any evaluation measured."""
    return tuple(dict.fromkeys(name for judged in night.entries for name in judged.entry.efficiency))


def measured(entry: Entry, name: str) -> str:
    """Return an evaluation's efficiency; a dash where it was not measured."""
    value = entry.efficiency.get(name)
    return DASH if value is None else f"{value:.2f}"


def _score(judged: Judged) -> tuple[str, ...]:
    entry, found = judged.entry, judged.entry.comparison
    own = (
        judged.verdict,
        percent(entry.ex),
        counts(entry.ex),
        interval(*entry.interval) if entry.interval else "",
    )
    if not found:
        return *own, "", "", "", "", ""
    between = f"{points(found.low)} to {points(found.high)}"
    flipped = (number(len(found.fixed)), number(len(found.broken)))
    return *own, points(found.difference), between, *flipped, p_value(judged.p_value)


def _corrected(entry: Entry) -> tuple[str, str]:
    return percent(entry.corrected), counts(entry.corrected)


def _cost(judged: Judged) -> tuple[str, ...]:
    entry = judged.entry
    return (
        number(entry.calls, missing=DASH),
        number(entry.cached_calls, missing=DASH),
        DASH if entry.calls is None else money(entry.cost_usd),
        seconds(entry.p50_s),
        seconds(entry.p95_s),
        duration(entry.seconds),
        failures(entry),
    )

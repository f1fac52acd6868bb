"""The half of grouping equal results that runs inside a sandboxed worker.

Imported by every worker, so it imports nothing heavy; what needs a parser was worked out before.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.scoring.execution.judge_job import Query
from tasks.scoring.execution.rules import RULES, GoldOrder

if TYPE_CHECKING:
    from tasks.database.sandbox.results import Result
    from tasks.database.sandbox.session import Session


@dataclass(frozen=True, slots=True)
class Grouped:
    """One SQL of several."""

    status: str  # "ok", "empty", "error", "timeout" or "too_large"
    leader: int  # place of the first SQL with an equal result; its own where it has none


@dataclass(frozen=True, slots=True)
class GroupJob:
    """What a worker is asked to group."""

    queries: tuple[Query, ...]  # the SQLs, each once
    orders: tuple[GoldOrder, ...]  # where each has ORDER BY
    rule: str  # name of the rule
    timeout_s: float  # limit per query, in seconds


@dataclass(frozen=True, slots=True)
class _Known:
    """Results of one SQL: as written, and without the DISTINCT that the rule strips; None where that does not run."""

    result: "Result"
    plain: "Result | None"
    order: GoldOrder


def group_results(session: "Session", job: GroupJob) -> list[Grouped]:
    """Run every SQL once and group those with equal results, in their order."""
    leaders: dict[int, _Known] = {}
    grouped = []
    for place, (query, order) in enumerate(zip(job.queries, job.orders, strict=True)):
        known = _run(session, query, order, job.timeout_s)
        status = "empty" if known.result.ok and not known.result.row_count else known.result.status
        leader = place
        if known.result.ok:
            leader = next((at for at, other in leaders.items() if _same(job.rule, other, known)), place)
            leaders.setdefault(leader, known)
        grouped.append(Grouped(status, leader))
    return grouped


def _run(session: "Session", query: Query, order: GoldOrder, timeout_s: float) -> _Known:
    result = session.run(query.sql, timeout_s=timeout_s)
    plain = result
    if result.ok and query.plain != query.sql:
        plain = session.run(query.plain, timeout_s=timeout_s)
    return _Known(result, plain if plain.ok else None, order)


def _same(name: str, one: _Known, other: _Known) -> bool:
    """Return whether either is right with the other in the gold's place; DISTINCT stays where one fails without it."""
    matches = RULES[name].matches
    if one.plain and other.plain:
        rows, others = one.plain.rows, other.plain.rows
    else:
        rows, others = one.result.rows, other.result.rows
    return matches(rows, others, one.order) and matches(others, rows, other.order)

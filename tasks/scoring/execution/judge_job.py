"""The half of execution accuracy that runs inside a sandboxed worker: execute, compare, return verdicts only.

Imported by every worker, so it imports nothing heavy; what needs a parser was worked out before.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.scoring.execution.rules import Rule, matches
from tasks.scoring.report import Verdict

if TYPE_CHECKING:
    from tasks.database.sandbox.connection import Result, Session


@dataclass(frozen=True, slots=True)
class Query:
    """One SQL to execute.

    Attributes:
        sql: as it was written.
        plain: without its DISTINCT, for the rule "spider"; equal to `sql` where there is nothing to strip.
    """

    sql: str
    plain: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a worker is asked to compare.

    Attributes:
        gold: the gold; None to execute the predictions only.
        predicted: the SQLs to judge, each once.
        rules: the rules to judge by.
        ordered_anywhere: whether the gold has ORDER BY.
        ordered_outermost: whether its outermost query has.
        timeout_s: limit per query, in seconds.
    """

    gold: Query | None
    predicted: tuple[Query, ...]
    rules: tuple[Rule, ...]
    ordered_anywhere: bool
    ordered_outermost: bool
    timeout_s: float

    @property
    def executions(self) -> int:
        """Queries that a worker may have to run."""
        queries = (*self.predicted, *([self.gold] if self.gold else []))
        return sum(1 + (query.plain != query.sql) for query in queries) + ("spider" in self.rules)


@dataclass(frozen=True, slots=True)
class Compared:
    """What a worker found.

    Attributes:
        gold_status: status of the gold, "" where it was not executed.
        verdicts: one per prediction, in order.
    """

    gold_status: str
    verdicts: tuple[Verdict, ...]


def compare(session: "Session", comparison: Comparison) -> Compared:
    """Run the gold once and each prediction once, and judge each under every rule.

    "spider" needs a second run of a query whose DISTINCT was stripped. If the gold does not finish without
    its DISTINCT, both sides keep theirs.
    """
    limit = comparison.timeout_s
    gold = session.run(comparison.gold.sql, timeout_s=limit) if comparison.gold else None
    plain_gold = _without_distinct(session, comparison, gold)
    verdicts = []
    for query in comparison.predicted:
        result = session.run(query.sql, timeout_s=limit)
        correct: dict[str, bool] = {}
        for rule in comparison.rules:
            one, other = gold, result
            if rule == "spider" and plain_gold is not None:
                one = plain_gold
                if query.plain != query.sql:
                    other = session.run(query.plain, timeout_s=limit)
            correct[rule] = _is_right(rule, comparison, one, other)
        verdicts.append(
            Verdict(
                correct=correct,
                status=result.status,
                error=result.error,
                row_count=result.row_count,
                gold_status=gold.status if gold else "",
                seconds=result.seconds,
            )
        )
    return Compared(gold.status if gold else "", tuple(verdicts))


def _without_distinct(session: "Session", comparison: Comparison, gold: "Result | None") -> "Result | None":
    """Return the gold's result for "spider"; None where DISTINCT is to stay on both sides."""
    query = comparison.gold
    if query is None or gold is None or "spider" not in comparison.rules or gold.status != "ok":
        return None
    if query.plain == query.sql:
        return gold
    plain = session.run(query.plain, timeout_s=comparison.timeout_s)
    return plain if plain.status == "ok" else None


def _is_right(rule: Rule, comparison: Comparison, gold: "Result | None", predicted: "Result") -> bool:
    if gold is None or gold.status != "ok" or predicted.status != "ok":
        return False
    return matches(
        rule,
        gold.rows,
        predicted.rows,
        ordered_anywhere=comparison.ordered_anywhere,
        ordered_outermost=comparison.ordered_outermost,
    )

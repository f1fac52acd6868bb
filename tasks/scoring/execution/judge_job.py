"""What runs inside a sandboxed worker: execute, compare or group results, return verdicts or groups only.

Imported by every worker, so it imports nothing heavy; what needs a parser was worked out before.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from tasks.scoring.execution.rules import RULES, SubsetGold
from tasks.scoring.scores import Difference, Verdict
from tasks.sql.rewriting import Ordering

if TYPE_CHECKING:
    from tasks.database.sandbox.session import Result, SqlSession

MAX_COMPARED_ROWS = 100_000
"""Rows of a wrong result up to which it is found out how it differs from the gold's."""
COMPARING_S = 15.0
"""Seconds beyond those of its queries that a worker may take to compare; a million rows take a few."""

REPEATABLE = frozenset({"ok", "error"})
"""Statuses that a repetition on the same database would give again."""


class JudgedQuery(NamedTuple):
    """One SQL to execute."""

    sql: str  # as it was written
    # as Spider's evaluator executes it, without DISTINCT, for rules that strip it; equal to `sql` where nothing is to
    # be changed
    plain: str
    # where it has ORDER BY, if it is a gold or one of several whose results are grouped
    order: Ordering = Ordering()


def seconds_of(queries: Iterable[JudgedQuery], timeout_s: float) -> float:
    """Return how long a worker may take to run queries in both forms, and to compare their results."""
    return timeout_s * sum(1 + (query.plain != query.sql) for query in queries) + COMPARING_S


class JudgeJob(NamedTuple):
    """What a worker is asked to compare."""

    gold: JudgedQuery | None  # the gold; None to execute the predictions only
    predicted: tuple[JudgedQuery, ...]  # the SQLs to judge, each once
    rules: tuple[str, ...]  # names of the rules to judge by
    timeout_s: float  # limit per query, in seconds
    # results that count as right under rules that know such; None where there is only a gold SQL
    accepted: SubsetGold | None = None

    @property
    def strips_distinct(self) -> bool:
        """Whether any rule compares results without DISTINCT."""
        return any(RULES[rule].strips_distinct for rule in self.rules)

    @property
    def seconds(self) -> float:
        """How long a worker may take."""
        queries = (*self.predicted, *([self.gold] if self.gold else []))
        return seconds_of(queries, self.timeout_s) + self.timeout_s * self.strips_distinct


class Compared(NamedTuple):
    """What a worker found."""

    # status of the gold, "" where it was not executed; "ok" where accepted results stand for it
    gold_status: str
    verdicts: tuple[Verdict, ...]  # one per prediction, in order
    repeatable: bool = True
    """Whether another execution would give the same verdicts; not if a query without its DISTINCT exceeded a limit."""


def compare(session: "SqlSession", job: JudgeJob) -> Compared:
    """Run the gold once and each prediction once, and judge each prediction under every rule.

    The worker keeps the result of the gold (`run_known`), for later jobs and for a prediction with the same text. For a
    rule that strips DISTINCT, a query with DISTINCT is run a second time without it; if that run of the gold does not
    finish, the rule compares the results with DISTINCT.
    """
    limit = job.timeout_s
    gold = session.run_known(job.gold.sql, timeout_s=limit, keep=True) if job.gold else None
    status_without_gold = "ok" if job.accepted else ""
    gold_status = gold.status if gold else status_without_gold
    plain_gold = _without_distinct(session, job, gold)
    repeatable = plain_gold is None or plain_gold.status in REPEATABLE
    plain_gold_runs = plain_gold is not None and plain_gold.ok
    verdicts = []
    for query in job.predicted:
        result = session.run_known(query.sql, timeout_s=limit)
        correct: dict[str, bool] = {}
        for rule in job.rules:
            expected, actual = gold, result
            if RULES[rule].strips_distinct and plain_gold_runs:
                expected = plain_gold
                if query.plain != query.sql:
                    actual = session.run_known(query.plain, timeout_s=limit)
                    repeatable &= actual.status in REPEATABLE
            correct[rule] = _is_right(rule, job, expected, actual)
        wrong = not all(correct.values())
        verdicts.append(
            Verdict(
                correct=correct,
                status=result.status,
                error=result.error,
                row_count=result.row_count,
                gold_status=gold_status,
                seconds=result.seconds,
                gold_rows=gold.row_count if gold else None,
                difference=_difference(gold, result) if wrong else "",
            )
        )
    return Compared(gold_status, tuple(verdicts), repeatable)


def _difference(gold: "Result | None", predicted: "Result") -> Difference:
    """Return how the rows of a prediction differ from the gold's; "" where one of them did not finish."""
    if gold is None or gold.status != "ok" or predicted.status != "ok":
        return ""
    if len(predicted.columns) != len(gold.columns):
        return "missing_columns" if len(predicted.columns) < len(gold.columns) else "extra_columns"
    if max(len(gold.rows), len(predicted.rows)) > MAX_COMPARED_ROWS:
        return "other_rows"  # finding out more would take too long
    expected = Counter(map(repr, gold.rows))
    actual = Counter(map(repr, predicted.rows))
    if expected == actual:
        return "row_order"
    if actual < expected:
        return "missing_rows"
    return "extra_rows" if expected < actual else "other_rows"


def _without_distinct(session: "SqlSession", job: JudgeJob, gold: "Result | None") -> "Result | None":
    """Return the gold's result without DISTINCT; None where no rule asks for it, or the gold does not finish."""
    query = job.gold
    if query is None or gold is None or not job.strips_distinct or gold.status != "ok":
        return None
    if query.plain == query.sql:
        return gold
    return session.run_known(query.plain, timeout_s=job.timeout_s, keep=True)


def _is_right(rule_name: str, job: JudgeJob, gold: "Result | None", predicted: "Result") -> bool:
    """Return whether a result is right under a rule: by the accepted results if the rule has them, else the gold."""
    rule = RULES[rule_name]
    if predicted.status != "ok":
        return False
    if job.accepted and rule.matches_accepted:
        return rule.matches_accepted(job.accepted, predicted.rows)
    if gold is None or gold.status != "ok":
        return False
    order = job.gold.order if job.gold else Ordering()
    return gold.rows == predicted.rows or rule.matches(gold.rows, predicted.rows, order)


class Grouped(NamedTuple):
    """One SQL of several."""

    status: str  # "ok", "empty", "error", "timeout" or "too_large"
    leader: int  # index of the first SQL with an equal result; its own where it has none


class _Results(NamedTuple):
    """Results of one SQL: as written, and without the DISTINCT that the rule strips; None where that does not run."""

    result: "Result"
    plain: "Result | None"
    order: Ordering


def group_results(
    session: "SqlSession", queries: tuple[JudgedQuery, ...], rule: str, timeout_s: float
) -> list[Grouped]:
    """Run every SQL and group those with equal results; the first SQL of a group, or one that fails, is its leader."""
    results_of_leaders: dict[int, _Results] = {}
    grouped = []
    for number, query in enumerate(queries):
        result = session.run(query.sql, timeout_s=timeout_s)
        if not result.ok:
            grouped.append(Grouped(result.status, leader=number))
            continue
        plain = result if query.plain == query.sql else session.run(query.plain, timeout_s=timeout_s)
        results = _Results(result, plain=plain if plain.ok else None, order=query.order)
        equal = (leader for leader, earlier in results_of_leaders.items() if _same(rule, earlier, results))
        leader = next(equal, number)
        if leader == number:
            results_of_leaders[number] = results
        grouped.append(Grouped(result.status if result.row_count else "empty", leader))
    return grouped


def _same(name: str, first: _Results, second: _Results) -> bool:
    """Return whether either is right with the other in the gold's place; DISTINCT stays where one fails without it."""
    matches = RULES[name].matches
    if first.plain and second.plain:
        rows, others = first.plain.rows, second.plain.rows
    else:
        rows, others = first.result.rows, second.result.rows
    return matches(rows, others, first.order) and matches(others, rows, second.order)


VOTING = 3
"""Class of the candidates whose votes are counted: those that return rows."""

_CLASSES = {"no_answer": 0, "error": 1, "timeout": 1, "too_large": 1, "empty": 2, "ok": VOTING}


@dataclass(frozen=True, slots=True)
class Ballot:
    """The results of the candidates of one question, and which of them are equal."""

    # per candidate "ok", "empty", "error", "timeout", "too_large", or "no_answer" without a SQL
    statuses: tuple[str, ...]
    # per candidate the index of the first candidate with an equal result; its own where it is the first, or where its
    # SQL has no result
    leaders: tuple[int, ...]

    @property
    def classes(self) -> tuple[int, ...]:
        """Rank of each candidate's status: rows before no rows, no rows before a failing SQL, that before none."""
        return tuple(_CLASSES[status] for status in self.statuses)

    def winner(self, among: Iterable[int] | None = None) -> int:
        """Return the index of the candidate that the vote chooses among the candidates `among`; None: among all.

        The first candidate of the largest group of equal results wins; of groups of one size, the one whose first
        candidate came first. Only results with rows are counted as votes: a result without rows is chosen if no
        candidate has rows, and a SQL that fails if no candidate has a result.
        """
        voters = range(len(self.leaders)) if among is None else tuple(among)
        classes = self.classes
        votes = Counter(self.leaders[voter] for voter in voters if classes[voter] == VOTING)
        return max(voters, key=lambda voter: (classes[voter], votes[self.leaders[voter]], -voter))

    @property
    def contenders(self) -> tuple[tuple[int, ...], ...]:
        """Candidates with equal results, the group that the vote prefers first; without SQL that fails."""
        groups: dict[int, tuple[int, ...]] = {}
        for candidate, leader in enumerate(self.leaders):
            if self.statuses[candidate] in ("ok", "empty"):
                groups[leader] = (*groups.get(leader, ()), candidate)
        ranked = []
        while groups:
            winner = self.winner(among=chain(*groups.values()))
            ranked.append(groups.pop(self.leaders[winner]))
        return tuple(ranked)

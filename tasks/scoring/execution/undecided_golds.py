"""Golds whose result the data do not decide, found by executing alternatives of the gold.

A prediction that reads the question as the gold does can then have another result, and be judged wrong.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tasks.core.records import Execution
from tasks.database.database import Database
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.report import is_right
from tasks.sql.alternatives import Kind, Pair, find_alternatives

MAX_VALUES = 5_000
"""Values of a sort key that are looked at."""
MAX_ROWS = 2_000
"""Rows of two results that are compared for those that only one has."""
TIES = ("limit_tie", "limit_without_order", "order_tie")
KINDS_IN_WORDS: dict[Kind, str] = {
    "limit_tie": "rows that ORDER BY leaves equal, at the cut of a LIMIT",
    "limit_without_order": "a LIMIT without ORDER BY",
    "order_tie": "rows that ORDER BY leaves equal, in another order",
    "bare_column": "a column beside an aggregate that differs within the group",
    "extreme_row": "a column beside MIN or MAX, which only SQLite takes from that row",
    "text_number": "numbers that are sorted as texts",
    "null_order": "NULL before or after other values",
    "float_sum": "a sum of numbers in another order",
}
_NUMBER = re.compile(r"\s*[-+]?\d+(\.\d+)?\s*")


@dataclass(frozen=True, slots=True)
class Finding:
    """An alternative that has another result."""

    pair: Pair
    columns: tuple[str, ...] = ()
    # rows that only one of the two results has, of each the first ones; where only the order differs, the first rows
    only_one: tuple[tuple[Any, ...], ...] = field(default=(), repr=False)
    only_other: tuple[tuple[Any, ...], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether the data decide the result of a gold."""

    findings: tuple[Finding, ...] = ()  # () where they do, as far as it was checked
    unchecked: str = ""  # what could not be checked, and why, as a clause; "" where nothing

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the findings."""
        return tuple(finding.pair.kind for finding in self.findings)


async def decide(judge: Judge, database: Database, gold_sql: str, *, rows: int = 0) -> Decision:
    """Execute the alternatives of a gold, and compare their results; a finding has at most `rows` rows to show."""
    alternatives = find_alternatives(gold_sql, database.dialect)
    if alternatives is None:
        return Decision(unchecked="it cannot be parsed")
    if next(iter(alternatives.pairs(1, [True] * len(alternatives.probes))), None) is None:
        return Decision()
    gold = await judge.workers.execute(database, gold_sql, rows=0, timeout_s=judge.timeout_s)
    if not gold.ok:
        return Decision()
    if not await _is_right(judge, database, gold_sql, alternatives.same):
        return Decision(unchecked="it cannot be rewritten with the same result")
    numbers = [await _has_text_numbers(judge, database, probe) for probe in alternatives.probes]
    return await _compared(judge, database, gold_sql, alternatives.pairs(len(gold.columns), numbers), rows)


async def _compared(
    judge: Judge, database: Database, gold_sql: str, pairs: Iterable[Pair], rows: int
) -> Decision:
    findings: list[Finding] = []
    unchecked = []
    for pair in pairs:
        verdict = (await judge.verdicts(database, pair.one, {"other": pair.other}))["other"]
        if verdict.gold_status != "ok" or verdict.status != "ok":
            unchecked.append(f"{pair.kind} ({verdict.error or verdict.gold_status})")
            continue
        only_order = pair.kind == "limit_without_order" and verdict.difference == "row_order"
        if is_right(verdict, judge.rules[0]) or only_order:  # the gold asks for no order
            continue
        tied = any(finding.pair.kind in TIES for finding in findings)
        rewritten = pair.kind in ("null_order", "float_sum") and not tied
        if rewritten and not await _is_right(judge, database, gold_sql, pair.one):
            unchecked.append(f"{pair.kind} (the rewritten gold has another result)")
            continue
        findings.append(await _with_rows(judge, database, pair, rows))
    return Decision(tuple(findings), "; ".join(unchecked))


async def _is_right(judge: Judge, database: Database, gold_sql: str, sql: str) -> bool:
    return is_right((await judge.verdicts(database, gold_sql, {"": sql}))[""], judge.rules[0])


async def _has_text_numbers(judge: Judge, database: Database, probe: str) -> bool:
    execution = await judge.workers.execute(database, probe, rows=MAX_VALUES, timeout_s=judge.timeout_s)
    values = [row[0] for row in execution.rows if row[0] is not None] if execution.ok else []
    return len(values) > 1 and all(isinstance(value, str) and _NUMBER.fullmatch(value) for value in values)


async def _with_rows(judge: Judge, database: Database, pair: Pair, rows: int) -> Finding:
    if not rows:
        return Finding(pair)
    one, other = [
        await judge.workers.execute(database, sql, rows=MAX_ROWS, timeout_s=judge.timeout_s)
        for sql in (pair.one, pair.other)
    ]
    only_one, only_other = _less(one, other), _less(other, one)
    if not only_one and not only_other:
        only_one, only_other = one.rows, other.rows
    return Finding(pair, one.columns, only_one[:rows], only_other[:rows])


def _less(result: Execution, alternative: Execution) -> tuple[tuple[Any, ...], ...]:
    """Return the rows of one result that another does not have, a row as often as it is missing."""
    unmatched = Counter(map(repr, alternative.rows))
    lacking = []
    for row in result.rows:
        if unmatched[repr(row)]:
            unmatched[repr(row)] -= 1
        else:
            lacking.append(row)
    return tuple(lacking)

"""Golds of one question: a prediction is right if its result is that of any gold SQL, or an accepted one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tasks.benchmarks.files.readers import read_text
from tasks.benchmarks.layouts.base import GoldResults
from tasks.core.errors import DataError
from tasks.database.database import Database
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.subset import AcceptedResult, SubsetGold, read_gold_csv
from tasks.scoring.execution.suite import SuiteVerdicts, judge_suite
from tasks.scoring.report import Verdict


async def judge_golds(
    judge: Judge,
    databases: Sequence[Database],
    golds: Sequence[str],
    candidates: Mapping[str, str | None],
    *,
    accepted: SubsetGold | None = None,
) -> SuiteVerdicts:
    """Judge the candidates of one question by each of its golds, on each of its databases.

    All databases have to agree on one and the same gold. A gold that does not finish makes nothing right; the
    question's gold is at fault only if none of its golds finishes. There is at least one database and one gold, ""
    where there are accepted results only. These are of the first database.
    """
    first, *others = [
        await judge_suite(judge, databases, gold, candidates, accepted=accepted) for gold in golds
    ]
    everywhere, alone = dict(first.all), dict(first.first)
    for found in others:
        everywhere = {name: either(verdict, found.all[name]) for name, verdict in everywhere.items()}
        alone = {name: either(verdict, found.first[name]) for name, verdict in alone.items()}
    return SuiteVerdicts(everywhere, alone)


def either(one: Verdict, other: Verdict) -> Verdict:
    """Return the verdict by two golds, under each rule right if one of them says so; the rest is that of the first."""
    rules = dict.fromkeys([*one.correct, *other.correct])
    correct = {rule: one.correct.get(rule, False) or other.correct.get(rule, False) for rule in rules}
    gold_status = one.gold_status if other.gold_status != "ok" else "ok"
    return replace(one, correct=correct, gold_status=gold_status)


def read_accepted(results: GoldResults) -> SubsetGold:
    """Read the accepted results of one question.

    Raises:
        DataError: a file cannot be read, is empty, or has fewer columns than are asked for.
    """
    accepted = []
    for path, columns in zip(results.files, results.columns, strict=True):
        text = read_text(path)
        if not text.strip():
            raise DataError(f"{path} is empty: a result has at least a line with its columns.")
        rows = read_gold_csv(text)
        width = min((len(row) for row in rows), default=max(columns, default=0) + 1)
        if columns and max(columns) >= width:
            raise DataError(
                f"{path} has {width} columns, but column {max(columns)} (from 0) is asked for in condition_cols."
            )
        accepted.append(AcceptedResult(rows, columns))
    return SubsetGold(tuple(accepted), results.ignore_order)

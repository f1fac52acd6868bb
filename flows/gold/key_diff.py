"""What two answer keys of a benchmark disagree on, with the results of both."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from flows.benchmarks.databases import open_databases
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.keys.key import AnswerKey, same_sql, words
from tasks.core.errors import ConfigurationError
from tasks.core.records import Execution, Question
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.golds import judge_golds
from tasks.scoring.report import is_right
from tasks.settings.benchmark import OFFICIAL, BenchmarkSettings, check_key_names, key_name

Kind = Literal["result", "sql", "text", "counted", "absent", "not_run"]
KINDS: dict[Kind, str] = {
    "result": "the results differ",
    "counted": "only one of them withdraws the question",
    "text": "the texts of the question differ, the results do not",
    "not_run": "the SQL differs, and it was not run or does not run",
    "sql": "the SQL differs, the results are equal",
    "absent": "only one of them has the question",
}
"""How two keys differ on a question, in words; the most important first."""


@dataclass(frozen=True)
class Side:
    """What one key says of a question."""

    counted: bool  # whether the key has an answer to it
    sqls: tuple[str, ...] = ()
    question: str = ""
    evidence: str = ""
    reason: str = ""  # why it differs from the official key; "" where it does not
    found: Execution | None = None  # the result of the first SQL; None where it was not run
    absent: bool = False  # whether it does not have the question, so that it does not count it either


@dataclass(frozen=True)
class Difference:
    """A question on which two keys differ."""

    question: Question  # as the benchmark has it
    kind: Kind
    other_text: bool  # whether the texts differ, whatever the kind
    a: Side
    b: Side


@dataclass(frozen=True)
class KeyDiff:
    """What two keys disagree on."""

    benchmark: BenchmarkSettings
    names: tuple[str, str]
    equal: int  # questions of which both say the same
    differences: tuple[Difference, ...] = field(repr=False)  # in the benchmark's order

    def of_kind(self, kind: Kind) -> list[Difference]:
        """Return the questions that differ in this way."""
        return [each for each in self.differences if each.kind == kind]


def diff_keys(
    settings: BenchmarkSettings,
    items: tuple[str, str],
    folders: Folders,
    progress: Progress,
    *,
    rows: int = 5,
) -> KeyDiff:
    """Compare two keys, each as in `benchmark.answer_keys` or "official", on all questions of a benchmark.

    The results are equal if each SQL of either key has a result of the other key under the benchmark's rule.

    Raises:
        CrosscheckError: a key or a file of the benchmark cannot be read, or both are the same key.
    """
    if items[0] == items[1]:
        raise ConfigurationError(f"Both keys are {key_name(items[0])}: name two.")
    progress.step(f"Reading {settings.name}")
    named = tuple(item for item in items if item != OFFICIAL)
    try:
        check_key_names(named)
    except ValueError as error:
        raise ConfigurationError(f"{error}.") from None
    benchmark = folders.benchmark(settings.model_copy(update={"answer_keys": named}), progress)
    for key in benchmark.keys:
        key.demand_valid()
    keys = {key.name: key for key in benchmark.keys}
    first, second = (keys.get(key_name(item)) for item in items)
    pairs = [
        (question, _side(first, question, benchmark), _side(second, question, benchmark))
        for question in benchmark.questions
    ]
    differing = [(question, a, b) for question, a, b in pairs if not _same(a, b)]
    wanted = dict.fromkeys(q.database_id for q, a, b in differing if not (a.absent or b.absent))
    databases = open_databases(benchmark, wanted, progress)
    found = asyncio.run(_compare(differing, benchmark, databases, progress, rows))
    names = (key_name(items[0]), key_name(items[1]))
    return KeyDiff(settings, names, len(pairs) - len(found), found)


def _side(key: AnswerKey | None, question: Question, benchmark: Benchmark) -> Side:
    gold = benchmark.gold.get(question.id)
    official = (*([gold] if gold else []), *benchmark.further_gold.get(question.id, ()))
    if key is not None and question.id in key.absent:
        return Side(counted=False, absent=True)
    entry = key.decided.get(question.id) if key else None
    if entry is None:
        return Side(bool(official), official, question.text, question.evidence)
    if entry.action == "withdraw":
        return Side(False, (), question.text, question.evidence, entry.reason)
    own = question.text if entry.question is None else entry.question
    hint = question.evidence if entry.evidence is None else entry.evidence
    return Side(True, (*(official if entry.action == "add" else ()), *entry.sql), own, hint, entry.reason)


def _same(a: Side, b: Side) -> bool:
    if not (a.counted and b.counted):
        return a.counted == b.counted
    return same_sql(a.sqls, b.sqls) and not _other_text(a, b)


def _other_text(a: Side, b: Side) -> bool:
    return (
        a.counted
        and b.counted
        and (words(a.question) != words(b.question) or words(a.evidence) != words(b.evidence))
    )


async def _compare(
    differing: Sequence[tuple[Question, Side, Side]],
    benchmark: Benchmark,
    databases: dict[str, Database],
    progress: Progress,
    rows: int,
) -> tuple[Difference, ...]:
    rule, done = benchmark.settings.rule, 0
    async with SqlWorkers() as workers:
        judge = Judge(workers, (rule,), benchmark.settings.timeout_s)

        async def one(question: Question, a: Side, b: Side) -> Difference:
            nonlocal done
            database = databases.get(question.database_id)
            if database is not None and not (a.absent or b.absent):
                a, b = [await _run(side, database, judge, rows) for side in (a, b)]
            kind = await _kind(a, b, database, judge)
            done += 1
            progress.step(f"Compared {done:,} of {len(differing):,} questions that differ")
            return Difference(question, kind, _other_text(a, b), a, b)

        return tuple(await asyncio.gather(*(one(*each) for each in differing)))


async def _run(side: Side, database: Database, judge: Judge, rows: int) -> Side:
    if not side.sqls:
        return side
    found = await judge.workers.execute(database, side.sqls[0], rows=rows, timeout_s=judge.timeout_s)
    return replace(side, found=found)


async def _kind(a: Side, b: Side, database: Database | None, judge: Judge) -> Kind:
    if a.counted != b.counted:
        return "absent" if a.absent or b.absent else "counted"
    if same_sql(a.sqls, b.sqls):
        return "text"
    if database is None:
        return "not_run"
    verdicts = [
        verdict
        for golds, others in ((a.sqls, b.sqls), (b.sqls, a.sqls))
        for verdict in (
            await judge_golds(judge, [database], golds, dict(zip(others, others, strict=True)))
        ).all.values()
    ]
    if any(status != "ok" for each in verdicts for status in (each.gold_status, each.status)):
        return "not_run"
    if not all(is_right(each, judge.rules[0]) for each in verdicts):
        return "result"
    return "text" if _other_text(a, b) else "sql"

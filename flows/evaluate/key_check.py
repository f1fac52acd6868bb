"""Check of an answer key: every SQL is run, and its result compared with that of the official gold."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from flows.evaluate.gold_check import open_databases
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.benchmarks.answer_keys import AnswerKey, KeyEntry
from tasks.benchmarks.benchmark import Benchmark
from tasks.core.records import Execution, Question
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.suite import judge_golds, open_suites
from tasks.scoring.report import is_right
from tasks.settings.benchmark import BenchmarkSettings


@dataclass(frozen=True)
class CheckedSql:
    """One SQL of a key."""

    sql: str  # the SQL
    execution: Execution | None  # None where the database is missing
    # whether its result is that of an official gold under the benchmark's rule; None where either did not finish, or
    # there is no official gold SQL
    same: bool | None


@dataclass(frozen=True)
class CheckedEntry:
    """What a key changes of one question, with each of its SQLs in order."""

    entry: KeyEntry
    question: Question  # as the benchmark has it
    sqls: tuple[CheckedSql, ...]
    golds: tuple[str, ...] = ()  # the official golds
    gold: Execution | None = None  # result of the first of them; None where it was not run

    @property
    def other_text(self) -> bool:
        """Whether its question or evidence is another than the benchmark's."""
        return not self.entry.has_text_of(self.question)


@dataclass(frozen=True)
class CheckedKey:
    """An answer key and what was found."""

    benchmark: BenchmarkSettings  # settings of the benchmark
    key: AnswerKey = field(repr=False)  # the key
    entries: tuple[CheckedEntry, ...] = field(repr=False)  # its valid entries, in file order

    @property
    def actions(self) -> Mapping[str, int]:
        """Number of entries by action."""
        return Counter(entry.entry.action for entry in self.entries)

    @property
    def problems(self) -> tuple[str, ...]:
        """Everything that is wrong with the file, SQL that does not run among it."""
        failing = (
            f"question {entry.entry.question_id}: the SQL does not run "
            f"({' '.join(sql.execution.error.split()) or sql.execution.status}): {' '.join(sql.sql.split())[:120]}"
            for entry in self.entries
            for sql in entry.sqls
            if sql.execution is not None and not sql.execution.ok
        )
        return (*self.key.problems, *failing)

    @property
    def other_text(self) -> tuple[str, ...]:
        """Ids of questions whose text is another under the key, which scores no answers to the benchmark's own text."""
        return tuple(entry.entry.question_id for entry in self.entries if entry.other_text)

    @property
    def differing(self) -> tuple[str, ...]:
        """Ids of questions that have an SQL with another result than the official gold."""
        return self._ids(lambda one: one.same is False)

    @property
    def same(self) -> tuple[str, ...]:
        """Ids of questions that have an SQL with the result of the official gold, which changes no verdict."""
        return self._ids(lambda one: one.same is True)

    @property
    def not_run(self) -> tuple[str, ...]:
        """Ids of questions whose database is missing."""
        return self._ids(lambda one: one.execution is None)

    def _ids(self, condition: Callable[[CheckedSql], bool]) -> tuple[str, ...]:
        return tuple(entry.entry.question_id for entry in self.entries if any(map(condition, entry.sqls)))


def check_key(
    settings: BenchmarkSettings, item: str, folders: Folders, progress: Progress, *, rows: int = 0
) -> CheckedKey:
    """Run every SQL that a key changes of a benchmark.

    Args:
        settings: settings of the benchmark.
        item: the key, as in `benchmark.answer_keys`.
        folders: where files are read.
        progress: shows how many questions are checked.
        rows: rows of each result that are kept; with 0 the official golds are run for their verdicts only.
    """
    progress.step(f"Reading {settings.name}")
    plain = settings.model_copy(update={"answer_keys": (item,)})
    benchmark = folders.benchmark(plain, progress)
    of = {question.id: question for question in benchmark.questions}
    (key,) = benchmark.keys
    databases = open_databases(benchmark, [of[name].database_id for name in key.entries], progress)
    suites = open_suites(benchmark, databases)
    done = 0

    async def run() -> list[CheckedEntry]:
        async with SqlWorkers() as workers:
            judge = Judge(workers, (plain.rule,), plain.timeout_s)

            async def one(entry: KeyEntry) -> CheckedEntry:
                nonlocal done
                question = of[entry.question_id]
                suite = suites.get(question.database_id, ())
                checked = await _check(entry, question, benchmark, suite, judge, rows)
                done += 1
                progress.step(f"Checked the SQL of {done:,} of {len(key.entries):,} questions")
                return checked

            return list(await asyncio.gather(*map(one, key.entries.values())))

    return CheckedKey(plain, key, tuple(asyncio.run(run())))


async def _check(
    entry: KeyEntry,
    question: Question,
    benchmark: Benchmark,
    suite: Sequence[Database],
    judge: Judge,
    rows: int,
) -> CheckedEntry:
    gold = benchmark.gold.get(entry.question_id)
    golds = (*([gold] if gold else []), *benchmark.further_gold.get(entry.question_id, ()))
    if not suite:
        return CheckedEntry(entry, question, tuple(CheckedSql(sql, None, None) for sql in entry.sql), golds)

    async def run(sql: str) -> Execution:
        return await judge.workers.execute(suite[0], sql, rows=rows, timeout_s=judge.timeout_s)

    candidates: Mapping[str, str] = {str(place): sql for place, sql in enumerate(entry.sql)}
    verdicts = (await judge_golds(judge, suite, golds, candidates)).all if golds and candidates else {}
    checked = []
    for place, sql in candidates.items():
        execution = await run(sql)
        verdict = verdicts.get(place)
        known = execution.ok and verdict is not None and verdict.gold_status == "ok"
        checked.append(CheckedSql(sql, execution, is_right(verdict, judge.rules[0]) if known else None))
    official = await run(golds[0]) if rows and golds else None
    return CheckedEntry(entry, question, tuple(checked), golds, official)

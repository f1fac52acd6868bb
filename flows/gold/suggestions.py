"""Questions whose gold a person should look at: several models agree with each other and not with the gold."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from flows.benchmarks.databases import open_databases
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.benchmarks.benchmark import Benchmark
from tasks.core.errors import ConfigurationError
from tasks.core.records import Execution, Question
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.verdict_cache import VerdictCache
from tasks.scoring.report import QuestionScore, is_right
from tasks.settings.home import Home
from tasks.tracking.warehouse.stored import StoredRun

_Row = tuple[str, str, QuestionScore]
"""A question of a run: the run's backbone, the rule, and its score."""


@dataclass(frozen=True)
class Suggestion:
    """A question on which models agree on another result than the gold's."""

    question: Question
    gold_sql: str  # its official gold
    sqls: Mapping[str, str]  # their SQL by the name of the backbone
    agreeing_with_gold: tuple[str, ...]  # names of the backbones whose result is the gold's
    others: tuple[str, ...]  # names of the backbones with other results, or none
    gold: Execution = field(default_factory=lambda: Execution("ok"))  # result of the gold
    agreed: Execution = field(default_factory=lambda: Execution("ok"))  # result of the first of `sqls`


@dataclass(frozen=True)
class Suggestions:
    """What runs suggest; nothing of it changes a score."""

    runs: tuple[StoredRun, ...]  # the runs
    rule: str  # by which results are equal: the benchmark's own
    least: int  # number of different backbones that have to agree
    compared: int  # questions with an answer of at least so many
    suggestions: tuple[Suggestion, ...]  # in the benchmark's order
    not_read: tuple[str, ...] = ()  # ids of databases that are missing or cannot be read

    @property
    def backbones(self) -> tuple[str, ...]:
        """Names of the runs' backbones, each once."""
        return tuple(dict.fromkeys(each.run.backbone for each in self.runs))


def check_runs(runs: Sequence[StoredRun], least: int | None) -> int:
    """Return how many different backbones have to agree: `least`, else all. The runs must be comparable.

    Raises:
        ConfigurationError: the runs are of different questions, or of too few backbones.
    """
    first = runs[0].run
    for name in ("benchmark", "revision", "question_sha256"):
        for each in runs[1:]:
            if getattr(each.run, name) != getattr(first, name):
                raise ConfigurationError(
                    f"The runs {first.run_id} and {each.run.run_id} do not have the same {name.replace('_', ' ')}: "
                    "name runs of the same questions."
                )
    backbones = {each.run.backbone for each in runs}
    if len(backbones) < 2:
        raise ConfigurationError(
            f"All of these runs are of the backbone {first.backbone}: one model agrees with itself, also where it is "
            'wrong. Name runs of at least two backbones; "crosscheck score --name NAME" makes a run of predictions.'
        )
    if least is not None and least > len(backbones):
        raise ConfigurationError(
            f"--agree {least}: the runs are of {len(backbones)} different backbones only: "
            f"{', '.join(sorted(backbones))}."
        )
    return least or len(backbones)


def suggest(
    runs: Sequence[StoredRun], least: int, folders: Folders, progress: Progress, *, rows: int = 5
) -> Suggestions:
    """Find the questions of runs (see `check_runs`) on which backbones agree with each other and not with the gold.

    Answers that count as right under the benchmark's rule are not looked at again. Of the others, each is compared
    with each by its result, with the first of a group in the place of a gold. Several runs of one backbone count once.

    Args:
        runs: runs of the same questions.
        least: number of different backbones that have to agree.
        folders: of the benchmarks' files, and of the verdicts that are known.
        progress: display of the current step.
        rows: rows of both results to keep.

    Raises:
        CrosscheckError: the benchmark cannot be read.
    """
    progress.step(f"Reading {runs[0].run.benchmark}")
    benchmark = folders.benchmark_of(runs[0], progress)
    found = [each for each in map(_Answers.of, _by_question(runs)) if len(each.backbones) >= least]
    wanted = [each for each in found if len(each.wrong) >= least]
    broken: dict[str, str] = {}
    names = dict.fromkeys(each.question.database_id for each in wanted)
    databases = open_databases(benchmark, names, progress, broken)
    work = _Work(benchmark, databases, least, rows, runs[0].run.rule)
    suggestions = asyncio.run(_all(work, wanted, folders.home, progress))
    lost = tuple(name for name in names if name not in databases)
    return Suggestions(tuple(runs), work.rule, least, len(found), suggestions, lost)


@dataclass(frozen=True)
class _Answers:
    """The answers to one question: wrong SQL by backbone, and who was right."""

    question: Question
    gold_sql: str
    wrong: Mapping[str, tuple[str, ...]]
    right: tuple[str, ...]
    backbones: tuple[str, ...]

    @classmethod
    def of(cls, rows: Sequence[_Row]) -> "_Answers":
        wrong: dict[str, tuple[str, ...]] = {}
        for backbone, rule, score in rows:
            sql = score.outcome.sql
            if sql and score.final.status == "ok" and not is_right(score.final, rule):
                wrong[backbone] = tuple(dict.fromkeys((*wrong.get(backbone, ()), sql)))
        right = (backbone for backbone, rule, score in rows if is_right(score.final, rule))
        answered = (backbone for backbone, _, score in rows if score.outcome.sql)
        first = rows[0][2]
        return cls(
            first.question, first.gold_sql, wrong, tuple(dict.fromkeys(right)), tuple(dict.fromkeys(answered))
        )


def _by_question(runs: Sequence[StoredRun]) -> list[list[_Row]]:
    found: dict[str, list[_Row]] = {}
    for each in runs:
        for score in each.rows:
            if score.executable and score.gold_sql:
                found.setdefault(score.question.id, []).append((each.run.backbone, runs[0].run.rule, score))
    return list(found.values())


@dataclass(frozen=True)
class _Work:
    benchmark: Benchmark
    databases: Mapping[str, Database]
    least: int
    rows: int
    rule: str


async def _all(
    work: _Work, wanted: Sequence[_Answers], home: Home, progress: Progress
) -> tuple[Suggestion, ...]:
    timeout_s = work.benchmark.settings.timeout_s
    done = 0
    async with SqlWorkers() as workers:
        with VerdictCache(home.verdicts, workers.limits) as cache:
            judge = Judge(workers, (work.rule,), timeout_s, cache)

            async def one(answers: _Answers) -> list[Suggestion]:
                nonlocal done
                database = work.databases.get(answers.question.database_id)
                suggestions = [] if database is None else await _groups(work, answers, database, judge)
                done += 1
                progress.step(f"Compared the answers to {done:,} of {len(wanted):,} questions")
                return suggestions

            found = await asyncio.gather(*map(one, wanted))
    order = {question.id: place for place, question in enumerate(work.benchmark.questions)}
    every = (suggestion for suggestions in found for suggestion in suggestions)
    return tuple(sorted(every, key=lambda each: order.get(each.question.id, len(order))))


async def _groups(work: _Work, answers: _Answers, database: Database, judge: Judge) -> list[Suggestion]:
    """Return the groups of backbones with equal results that are large enough: as a rule one, perhaps several."""
    left = {(name, sql): None for name, sqls in answers.wrong.items() for sql in sqls}
    suggestions = []
    while left:
        first = next(iter(left))
        candidates = {str(place): sql for place, (_, sql) in enumerate(left)}
        verdicts = await judge.verdicts(database, first[1], candidates)
        alike = [
            each
            for place, each in enumerate(left)
            if each == first or is_right(verdicts[str(place)], work.rule)
        ]
        left = {each: None for each in left if each not in alike}
        sqls: dict[str, str] = {}
        for name, sql in alike:
            sqls.setdefault(name, sql)
        if len(sqls) < work.least:
            continue
        others = tuple(each for each in answers.backbones if each not in sqls and each not in answers.right)
        suggestion = Suggestion(answers.question, answers.gold_sql, sqls, answers.right, others)
        gold, agreed = [
            await judge.workers.execute(database, sql, rows=work.rows, timeout_s=judge.timeout_s)
            for sql in (answers.gold_sql, first[1])
        ]
        suggestions.append(replace(suggestion, gold=gold, agreed=agreed))
    return suggestions

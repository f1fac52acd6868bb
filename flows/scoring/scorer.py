"""Scores questions while others are still being asked."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Protocol

from flows.runtime.control import Progress
from tasks.benchmarks.benchmark import Benchmark
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.schema import Schema
from tasks.records import Failure, Outcome, Question
from tasks.scoring.build_details import build_details
from tasks.scoring.build_report import build_report
from tasks.scoring.execution.accuracy import VerdictKey, judge
from tasks.scoring.execution.efficiency import Efficiency, RightAnswer
from tasks.scoring.execution.rules import RULES, Rule
from tasks.scoring.execution.soft_f1 import judge_soft_f1
from tasks.scoring.linking import score_links
from tasks.scoring.report import QuestionScore, Report, Verdict

FINAL = "final"


class Scorable(Protocol):
    """What is scored: a benchmark, the questions selected from it, and the databases at hand."""

    @property
    def benchmark(self) -> Benchmark:
        """The whole split."""
        ...

    @property
    def questions(self) -> Sequence[Question]:
        """The selected questions, in the benchmark's order, also those without a database."""
        ...

    @property
    def databases(self) -> Mapping[str, Database]:
        """The opened databases, by id."""
        ...


class Scorer:
    """Hears outcomes, runs their SQL against the gold, and makes the report.

    Args:
        scorable: what is scored.
        workers: the pool that executes.
        record: called with each score.
        progress: told how far it is.
        rules: the rules to judge by.
        headline: the rule of the headline; None: the benchmark's own.
        cache: verdicts known from earlier runs.
    """

    def __init__(
        self,
        scorable: Scorable,
        workers: SqlWorkers,
        record: Callable[[QuestionScore], None],
        progress: Progress,
        *,
        rules: Sequence[Rule] = RULES,
        headline: str | None = None,
        cache: MutableMapping[VerdictKey, Verdict] | None = None,
    ) -> None:
        self._scorable = scorable
        self._settings = scorable.benchmark.settings
        self._workers = workers
        self._record = record
        self._progress = progress
        self._rules = tuple(rules)
        self._headline = headline or self._settings.rule
        self._cache = cache
        self._scores: dict[str, QuestionScore] = {}
        self._soft_f1: dict[str, float | None] = {}

    async def score(self, question: Question, outcome: Outcome) -> None:
        """Score one question: every candidate's SQL once, beside the gold.

        A question whose database is not at hand keeps its outcome, and is not scored.
        """
        database = self._scorable.databases.get(question.database_id)
        gold = self._scorable.benchmark.gold[question.id]
        if database is None:
            self._scores[question.id] = _unscored(question, outcome, gold)
            return
        verdicts = dict(
            await judge(
                self._workers,
                database,
                gold,
                {**{candidate.stage: candidate.sql for candidate in outcome.candidates}, FINAL: outcome.sql},
                rules=self._rules,
                timeout_s=self._settings.timeout_s,
                cache=self._cache,
            )
        )
        final = verdicts.pop(FINAL)
        if self._settings.soft_f1:
            found = await judge_soft_f1(
                self._workers, database, gold, {FINAL: outcome.sql}, timeout_s=self._settings.timeout_s
            )
            self._soft_f1[question.id] = found[FINAL]
        score = QuestionScore(question, outcome, final, verdicts, gold)
        self._scores[question.id] = score
        self._record(score)
        self._progress.judged(correct=final.correct.get(self._headline, False))

    async def add_scored(self, score: QuestionScore) -> None:
        """Take over a question as an earlier run scored it; its soft-F1, which runs do not keep, is scored anew."""
        name = score.question.id
        database = self._scorable.databases.get(score.question.database_id)
        if self._settings.soft_f1 and database:
            sql = {FINAL: score.outcome.sql}
            found = await judge_soft_f1(
                self._workers, database, score.gold_sql, sql, timeout_s=self._settings.timeout_s
            )
            self._soft_f1[name] = found[FINAL]
        self._scores[name] = score
        self._record(score)

    @property
    def scores(self) -> tuple[QuestionScore, ...]:
        """What has been scored so far, in the benchmark's order, with the questions that cannot be executed."""
        known = self._scorable.databases
        return tuple(
            self._scores.get(question.id) or self._without_database(question)
            for question in self._scorable.questions
            if question.id in self._scores or question.database_id not in known
        )

    @property
    def right_answers(self) -> tuple[RightAnswer, ...]:
        """The final answers that are right under the headline rule, with their gold."""
        return tuple(
            RightAnswer(
                self._scorable.databases[score.question.database_id], score.gold_sql, score.outcome.sql
            )
            for score in self.scores
            if score.outcome.sql and score.final.correct.get(self._headline)
        )

    def report(self, efficiency: Efficiency | None = None, *, link_all: bool = False) -> Report:
        """Return the report over all selected questions, and what lies behind its score.

        Args:
            efficiency: as measured; None: not asked for.
            link_all: score links also where the database is not at hand, since linking needs its schema only.
        """
        schemas = {name: database.schema for name, database in self._scorable.databases.items()}
        known: Mapping[str, Schema] = {**self._scorable.benchmark.schemas, **schemas} if link_all else schemas
        report = build_report(self.scores, rule=self._headline, schemas=known)
        if link_all:
            report = replace(report, linking=score_links(report.rows, known))
        details = build_details(
            report,
            known,
            with_exact_match=self._settings.layout == "spider",
            quarantine=self._settings.quarantine,
            soft_f1=self._soft_f1 if self._settings.soft_f1 else None,
            efficiency=efficiency,
            link_rows=report.rows if link_all else None,
        )
        return replace(report, details=details)

    def _without_database(self, question: Question) -> QuestionScore:
        failure = Failure(
            "missing_database", "", f"the database {question.database_id} is not at hand", False
        )
        return _unscored(
            question,
            Outcome(question.id, None, failure=failure),
            self._scorable.benchmark.gold[question.id],
        )


def _unscored(question: Question, outcome: Outcome, gold: str) -> QuestionScore:
    return QuestionScore(question, outcome, Verdict({}, "no_answer"), {}, gold, executable=False)

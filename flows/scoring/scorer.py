"""Scores questions while others are still being asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from flows.runtime.control import Progress
from tasks.benchmarks.benchmark import Benchmark
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.schema import Schema
from tasks.records import Failure, Outcome, Question
from tasks.scoring.build_report import build_report
from tasks.scoring.execution.accuracy import Verdicts, judge
from tasks.scoring.execution.result_metrics import measure_results
from tasks.scoring.execution.rules import rules_beside
from tasks.scoring.linking import score_links
from tasks.scoring.metric import METRICS, QuestionValue, ScoredRun, find_metrics, measure
from tasks.scoring.metrics.efficiency import Efficiency, RightAnswer
from tasks.scoring.report import QuestionScore, Report, Verdict, is_right

FINAL = "final"


class Scorable(Protocol):
    """Benchmark, the questions selected from it, and their databases."""

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
    """Scorer of outcomes: compares their SQL with the gold SQL by execution, and builds the report.

    Args:
        scorable: questions and databases.
        workers: the pool that executes SQL.
        record: called with each score.
        progress: display of the number of scored questions.
        rules: names of the rules to judge by; None: the default ones and the benchmark's own.
        headline: the rule of the headline; None: the benchmark's own.
        cache: verdicts known from earlier runs.

    Raises:
        ConfigurationError: a metric that is asked for cannot be found.
    """

    def __init__(
        self,
        scorable: Scorable,
        workers: SqlWorkers,
        record: Callable[[QuestionScore], None],
        progress: Progress,
        *,
        rules: Sequence[str] | None = None,
        headline: str | None = None,
        cache: Verdicts | None = None,
    ) -> None:
        self._scorable = scorable
        self._settings = scorable.benchmark.settings
        self._workers = workers
        self._record = record
        self._progress = progress
        self._headline = headline or self._settings.rule
        self._rules = tuple(rules or rules_beside(self._headline))
        self._cache = cache
        self._scores: dict[str, QuestionScore] = {}
        asked = (*self._settings.metrics, *(("soft_f1",) if self._settings.soft_f1 else ()))
        self._metrics = find_metrics(asked)
        wanted = [METRICS.get(name) for name in asked]
        self._executed = [one for one in self._metrics if one.compare and one in wanted]
        self._measured: dict[str, dict[str, QuestionValue]] = {one.name: {} for one in self._executed}

    async def score(self, question: Question, outcome: Outcome) -> None:
        """Score one question: its final SQL and every candidate's, each executed once.

        A question whose database is missing keeps its outcome, and is not scored.
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
        score = QuestionScore(question, outcome, final, verdicts, gold)
        await self._measure(score, database)
        self._scores[question.id] = score
        self._record(score)
        self._progress.judged(correct=is_right(final, self._headline))

    async def add_scored(self, score: QuestionScore) -> None:
        """Add a question scored by an earlier run; metrics that compare results are computed again."""
        name = score.question.id
        database = self._scorable.databases.get(score.question.database_id)
        if database:
            await self._measure(score, database)
        self._scores[name] = score
        self._record(score)

    async def _measure(self, score: QuestionScore, database: Database) -> None:
        """Compute the metrics of one question that compare results."""
        found = await measure_results(
            self._workers,
            database,
            score.gold_sql,
            score.outcome.sql,
            self._executed,
            timeout_s=self._settings.timeout_s,
        )
        for name, value in found.items():
            self._measured[name][score.question.id] = value

    @property
    def scores(self) -> tuple[QuestionScore, ...]:
        """Scores so far, in the benchmark's order, with the questions that cannot be executed."""
        known = self._scorable.databases
        return tuple(
            self._scores.get(question.id) or self._without_database(question)
            for question in self._scorable.questions
            if question.id in self._scores or question.database_id not in known
        )

    @property
    def right_answers(self) -> tuple[RightAnswer, ...]:
        """Final answers that are right under the headline rule, with their gold SQL."""
        return tuple(
            RightAnswer(
                self._scorable.databases[score.question.database_id], score.gold_sql, score.outcome.sql
            )
            for score in self.scores
            if score.outcome.sql and is_right(score.final, self._headline)
        )

    def report(self, efficiency: Efficiency | None = None, *, link_all: bool = False) -> Report:
        """Return the report over all selected questions, with every metric.

        Args:
            efficiency: measured run times; None: not measured.
            link_all: also score schema links of missing databases, which needs only their schemas.
        """
        schemas = {name: database.schema for name, database in self._scorable.databases.items()}
        known: Mapping[str, Schema] = {**self._scorable.benchmark.schemas, **schemas} if link_all else schemas
        report = build_report(self.scores, rule=self._headline, schemas=known)
        if link_all:
            report = replace(report, linking=score_links(report.rows, known))
        run = ScoredRun(
            report,
            known,
            exact_match=self._scorable.benchmark.layout.exact_match,
            quarantine=self._settings.quarantine,
            link_rows=report.rows if link_all else None,
            measured={**self._measured, **({"efficiency": efficiency} if efficiency else {})},
        )
        return replace(report, details=measure(run, self._metrics))

    def _without_database(self, question: Question) -> QuestionScore:
        failure = Failure("missing_database", "", f"the database {question.database_id} is missing", False)
        return _unscored(
            question,
            Outcome(question.id, None, failure=failure),
            self._scorable.benchmark.gold[question.id],
        )


def _unscored(question: Question, outcome: Outcome, gold: str) -> QuestionScore:
    return QuestionScore(question, outcome, Verdict({}, "no_answer"), {}, gold, executable=False)

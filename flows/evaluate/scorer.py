"""Scores questions while others are still being asked: by execution, and by answer keys beside the official gold."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flows.runtime.control import Progress, for_each
from tasks.benchmarks.answer_keys import AnswerKey
from tasks.benchmarks.benchmark import Benchmark
from tasks.core.errors import ConfigurationError, DatabaseUnavailableError
from tasks.core.outcome import Failure, Outcome
from tasks.core.records import Execution, Question
from tasks.core.wording import agreeing, counted
from tasks.database.database import Database, dialect_named
from tasks.database.sandbox.workers import SqlWorkers
from tasks.database.schema import Schema
from tasks.results.build_record import record_of
from tasks.results.run_record import RunRecord
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.gold_check import decide
from tasks.scoring.execution.rules import RULES, SubsetGold
from tasks.scoring.execution.run_times import Measured, RightAnswer, measure_efficiency
from tasks.scoring.execution.suite import either, judge_golds, read_accepted
from tasks.scoring.metric import ScoredRun, find_metrics, measure
from tasks.scoring.metrics.disagreements import SuiteRun
from tasks.scoring.metrics.soft_f1 import measure_soft_f1
from tasks.scoring.scores import NO_GOLD, Change, KeyVerdict, QuestionScore, Verdict, is_right
from tasks.settings.pipeline import CandidateSettings
from tasks.sql.clauses import hardness
from tasks.sql.transpiling import Transpiled, transpile

CHANGES: Mapping[str, Change] = {"replace": "replaced", "add": "added", "withdraw": "withdrawn"}
"""What the action of an entry does to a gold."""
FINAL = "final"

TRIALS = 3
"""Measurements of the efficiency of all right answers."""


@dataclass(frozen=True)
class KeyJudge:
    """The answer keys of a benchmark: files of corrected golds, by which answers are judged a second time."""

    benchmark: Benchmark  # the whole split
    judge: Judge  # compares SQL with a gold

    def of(self, question: Question) -> dict[str, KeyVerdict]:
        """Return what each key changes of a question, by the key's name, with nothing judged right."""
        verdicts = ((key.name, self._verdict(key, question)) for key in self.benchmark.keys)
        return {name: verdict for name, verdict in verdicts if verdict is not None}

    def _verdict(self, key: AnswerKey, question: Question) -> KeyVerdict | None:
        """Return what a key changes of a question, not judged yet; None: nothing. Added golds join the official."""
        if question.id in key.absent:
            return KeyVerdict("absent")
        entry = key.entries.get(question.id)
        if entry is None:
            return None
        if not entry.has_text_of(question):
            texts = (entry.question or question.text, entry.evidence or "")
            return KeyVerdict("other_text", entry.sql, {}, entry.reason, entry.source, *texts)
        golds = entry.sql
        if entry.action == "add":
            official = self.benchmark.gold.get(entry.question_id)
            further = self.benchmark.further_gold.get(entry.question_id, ())
            golds = (*([official] if official else []), *further, *entry.sql)
        return KeyVerdict(CHANGES[entry.action], golds, {}, entry.reason, entry.source)

    async def judged(self, score: QuestionScore, databases: Sequence[Database]) -> dict[str, KeyVerdict]:
        """Return what each key changes of a question, with its verdict on the final SQL if it has golds of its own."""
        verdicts = self.of(score.question)
        for key in self.benchmark.keys:
            verdict = verdicts.get(key.name)
            if verdict is None or not verdict.counted:
                continue
            golds = key.entries[score.question.id].sql
            final = (await judge_golds(self.judge, databases, golds, {FINAL: score.outcome.sql})).all[FINAL]
            if verdict.change == "added":  # what is right by the benchmark's own gold stays right
                final = either(score.final, final)
            verdicts[key.name] = replace(verdict, correct=final.correct)
        return verdicts


def why_sql_fails(question_id: str, sql: str, execution: Execution) -> str:
    """Say which SQL of a key does not run, and why."""
    reason = " ".join(execution.error.split()) or execution.status
    return f"question {question_id}: the SQL does not run ({reason}): {' '.join(sql.split())[:120]}"


async def check_keys(scorable: "Scorable", workers: SqlWorkers, progress: Progress) -> None:
    """Run the SQL of every answer key for the selected questions that have a database; raise if any does not run."""
    benchmark, databases = scorable.benchmark, scorable.databases

    async def find_problem(question_and_sql: tuple[Question, str]) -> str:
        """Run a SQL; say why it does not run, "" if it does."""
        question, sql = question_and_sql
        database = databases[question.database_id]
        timeout_s = benchmark.settings.timeout_s
        execution = await workers.execute(database, sql, rows=0, timeout_s=timeout_s)
        return "" if execution.ok else why_sql_fails(question.id, sql, execution)

    for key in benchmark.keys:
        sqls = []
        for question in scorable.questions:
            entry = key.entries.get(question.id)
            if entry and question.database_id in databases and entry.has_text_of(question):
                sqls += [(question, sql) for sql in entry.sql]
        problems = await for_each(sqls, find_problem, progress, "Checking the answer keys: {} SQL")
        key.demand_valid(tuple(filter(None, problems)))


class AnswerTranslation:
    """Translator of answers from a dialect, as a user names it, which counts what it changes."""

    def __init__(self, dialect: str) -> None:
        self._dialect_name = dialect
        self._dialect = dialect_named(dialect)
        self._translated = self._changed = self._unread = 0

    def apply(self, outcome: Outcome, database: Database) -> Outcome:
        """Return the outcome with its SQL and that of its candidates translated."""

        def translate(sql: str) -> Transpiled:
            return transpile(sql, self._dialect, database.dialect, database.schema)

        if outcome.sql:
            final = translate(outcome.sql)
            self._translated += 1
            self._unread += bool(final.problem)
            self._changed += bool(final.changed)
            outcome = replace(outcome, sql=final.sql)
        candidates = (
            replace(candidate, sql=translate(candidate.sql).sql) if candidate.sql else candidate
            for candidate in outcome.candidates
        )
        return replace(outcome, candidates=tuple(candidates))

    @property
    def note(self) -> str:
        """What was translated, in sentences with counts."""
        note = (
            f"{counted(self._translated, 'answer', 'was')} translated from {self._dialect_name} by sqlglot before "
            f"scoring, which changed the text of {self._changed:,}."
        )
        unread = f" {self._unread:,} could not be translated and {agreeing('was', self._unread)} scored as written."
        return note + unread if self._unread else note


@dataclass(frozen=True)
class Scorable:
    """What is scored."""

    benchmark: Benchmark  # the whole split
    questions: Sequence[Question]  # in the benchmark's order, also those without a database
    databases: Mapping[str, Database] = field(repr=False)
    # each database that has a test suite, with those of the suite
    suites: Mapping[str, tuple[Database, ...]] = field(default_factory=dict, repr=False)

    @property
    def compared(self) -> int:
        """Number of questions that have a database and a gold, so that they can be scored."""
        return sum(
            question.database_id in self.databases and self.benchmark.has_gold(question.id)
            for question in self.questions
        )


class Scorer:
    """Scorer of outcomes: compares their SQL with the gold SQL by execution, and adds the scores to the run's record.

    `on_score` is called with each score; without a `headline` rule it is the benchmark's own.
    """

    def __init__(
        self,
        scorable: Scorable,
        judge: Judge,
        *,
        headline: str | None = None,
        on_score: Callable[[QuestionScore], None] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._scorable = scorable
        self._settings = scorable.benchmark.settings
        self._judge = judge
        self._headline = headline or self._settings.rule
        self._on_score = on_score
        self._progress = progress or Progress()
        self._scores: dict[str, QuestionScore] = {}
        self._first_right: dict[str, bool] = {}
        self._metrics = find_metrics(self._settings.metrics)
        requested = self._settings.soft_f1 or "soft_f1" in self._settings.metrics
        self._soft_f1: dict[str, float | None] | None = {} if requested else None
        self._accepted = self._read_accepted()
        self._keys = KeyJudge(scorable.benchmark, judge)
        dialect = self._settings.transpile_predictions
        self._translation = AnswerTranslation(dialect) if dialect else None

    async def score(self, question: Question, outcome: Outcome) -> None:
        """Score one question: its final SQL and every candidate's, each executed once.

        A question whose database is missing, or that has no gold, keeps its outcome, and is not scored. One whose
        database becomes unavailable counts as wrong, without a SQL and with a retryable failure.
        """
        database = self._scorable.databases.get(question.database_id)
        gold = self._gold(question)
        if database is not None and self._translation:
            outcome = self._translation.apply(outcome, database)
        if database is None:
            self._scores[question.id] = _unscored(question, outcome, gold)
            return
        if not self._scorable.benchmark.has_gold(question.id):
            await self.add_scored(_unscored(question, outcome, gold="", gold_status=NO_GOLD))
            return
        try:
            verdicts = await self._verdicts(question, database, outcome)
            final = verdicts.pop(FINAL)
            await self.add_scored(QuestionScore(question, outcome, final, verdicts, gold))
        except DatabaseUnavailableError as error:
            failure = Failure("database_unavailable", "scoring", str(error), retryable=True)
            final = Verdict(dict.fromkeys(self._judge.rules, False), "no_answer")
            unanswered = replace(outcome, sql=None, failure=failure)
            self._add(QuestionScore(question, unanswered, final, {}, gold, keys=self._keys.of(question)))
        self._progress.judged(correct=is_right(final, self._headline))

    async def _verdicts(self, question: Question, database: Database, outcome: Outcome) -> dict[str, Verdict]:
        """Judge every candidate's SQL and the final one, on every database of the question."""
        suite = self._suite(database)
        candidates = {candidate.stage: candidate.sql for candidate in outcome.candidates}
        gold = self._gold(question)
        # without a gold SQL only rules that match accepted results can judge
        accepted = None if gold else self._accepted.get(question.id)
        judge = self._judge if gold else replace(self._judge, rules=_without_gold_sql(self._judge.rules))
        golds = (gold, *self._scorable.benchmark.further_gold.get(question.id, ()))
        verdicts = await judge_golds(
            judge, suite, golds, {**candidates, FINAL: outcome.sql}, accepted=accepted
        )
        if len(suite) > 1:
            self._first_right[question.id] = is_right(verdicts.first[FINAL], self._headline)
        return dict(verdicts.all)

    def _suite(self, database: Database) -> tuple[Database, ...]:
        return self._scorable.suites.get(database.id, (database,))

    async def add_scored(self, score: QuestionScore) -> None:
        """Add a scored question, also one of an earlier run; compute its Soft-F1 if the settings request it."""
        database = self._scorable.databases.get(score.question.database_id)
        if database and score.executable:
            score = replace(score, keys=await self._keys.judged(score, self._suite(database)))
            if self._settings.find_undecided and score.gold_sql:
                judge = replace(self._judge, rules=(self._headline,))
                score = replace(score, undecided=(await decide(judge, database, score.gold_sql)).kinds)
        if database and score.executable and self._gold(score.question):
            if self._soft_f1 is not None:
                self._soft_f1[score.question.id] = await self._best_soft_f1(database, score)
            if len(self._suite(database)) > 1 and score.question.id not in self._first_right:
                # Verdicts of an earlier run do not say what is right on the first database alone.
                await self._verdicts(score.question, database, score.outcome)
        self._add(score)

    async def _best_soft_f1(self, database: Database, score: QuestionScore) -> float | None:
        """Return the highest Soft-F1 with any of a question's golds; None if none of them finishes."""
        golds = (score.gold_sql, *self._scorable.benchmark.further_gold.get(score.question.id, ()))
        workers, timeout_s = self._judge.workers, self._settings.timeout_s
        sql = score.outcome.sql
        values = [await measure_soft_f1(workers, database, gold, sql, timeout_s=timeout_s) for gold in golds]
        return max((value for value in values if value is not None), default=None)

    def _add(self, score: QuestionScore) -> None:
        score = replace(score, question=self._with_grade(score))
        self._scores[score.question.id] = score
        if self._on_score:
            self._on_score(score)

    def _with_grade(self, score: QuestionScore) -> Question:
        """Return the question with a grade: Spider's hardness of its gold under Spider's rule, if it has none."""
        question = score.question
        database = self._scorable.databases.get(question.database_id)
        if question.difficulty or self._headline != "spider" or not (database and score.gold_sql):
            return question
        return replace(question, difficulty=hardness(score.gold_sql, database.schema))

    @property
    def scores(self) -> tuple[QuestionScore, ...]:
        """Scores so far, in the benchmark's order, with the questions that cannot be executed."""
        databases = self._scorable.databases
        return tuple(
            self._scores.get(question.id) or self._without_database(question)
            for question in self._scorable.questions
            if question.id in self._scores or question.database_id not in databases
        )

    async def measure_efficiency(self, trials: int = TRIALS) -> Measured:
        """Time the right answers against their gold; nothing else should run on the workers meanwhile."""
        answers = [
            RightAnswer(
                score.question.id,
                self._scorable.databases[score.question.database_id],
                score.gold_sql,
                score.outcome.sql,
            )
            for score in self.scores
            if score.outcome.sql and score.gold_sql and is_right(score.final, self._headline)
        ]
        total = trials * len(answers)
        return await measure_efficiency(
            self._judge.workers,
            answers,
            trials=trials,
            timeout_s=self._settings.timeout_s,
            on_measured=lambda done: self._progress.step(
                f"Timing right answers against their gold: {done:,} of {total:,}"
            ),
        )

    @property
    def schemas(self) -> dict[str, Schema]:
        """The schemas of the databases that are there, by their names."""
        return {name: database.schema for name, database in self._scorable.databases.items()}

    def record(
        self,
        run: RunRecord,
        efficiency: Measured | None = None,
        *,
        link_all: bool = False,
        candidates: CandidateSettings | None = None,
        **facts: Any,
    ) -> RunRecord:
        """Return the record of a run with the scores of all selected questions, and with every metric.

        `efficiency` and `candidates` are for the metrics of these names; None: there is nothing for them. With
        `link_all` schema links of missing databases are scored too, which needs only their schemas. `facts` are further
        fields of the record.
        """
        rows = self.scores
        schemas: Mapping[str, Schema] = self.schemas
        if link_all:
            schemas = {**self._scorable.benchmark.schemas, **schemas}
        sizes = {name: len(databases) for name, databases in self._scorable.suites.items()}
        right = {row.question.id: is_right(row.final, self._headline) for row in rows}
        # A question with a single database has no entry in `_first_right`: its only verdict is that on the first one.
        suite_run = SuiteRun(sizes, {**right, **self._first_right}) if self._first_right else None
        measured = {
            "efficiency": efficiency,
            "test_suite": suite_run,
            "candidates": candidates,
            "soft_f1": self._soft_f1,
        }
        scored_run = ScoredRun(
            self._headline,
            rows,
            schemas,
            exact_match=self._scorable.benchmark.layout.exact_match,
            link_all=link_all,
            measured={name: value for name, value in measured.items() if value is not None},
        )
        if self._translation:
            self._progress.note(self._translation.note)
        measurements = measure(scored_run, self._metrics)
        return record_of(run, rows, schemas=schemas, measurements=measurements, link_all=link_all, **facts)

    def _without_database(self, question: Question) -> QuestionScore:
        failure = Failure("missing_database", "", f"the database {question.database_id} is missing", False)
        return _unscored(question, Outcome(question.id, None, failure=failure), self._gold(question))

    def _gold(self, question: Question) -> str:
        return self._scorable.benchmark.gold.get(question.id, "")

    def _read_accepted(self) -> dict[str, SubsetGold]:
        """Read the accepted results of the questions that can be executed."""
        results = self._scorable.benchmark.results
        databases = self._scorable.databases
        executable = (question for question in self._scorable.questions if question.database_id in databases)
        ids = [question.id for question in executable if question.id in results]
        if ids and not _without_gold_sql((self._headline,)):
            rules = [name for name, rule in RULES.items() if rule.matches_accepted]
            raise ConfigurationError(
                f"{self._settings.name} has accepted results and no gold SQL, so the rule {self._headline} cannot "
                f"judge its questions. Valid: {', '.join(rules)}."
            )
        return {id_: read_accepted(results[id_]) for id_ in ids}


def _without_gold_sql(rules: Sequence[str]) -> tuple[str, ...]:
    """Return the rules that need no gold SQL where there are accepted results."""
    return tuple(rule for rule in rules if RULES[rule].matches_accepted)


def _unscored(question: Question, outcome: Outcome, gold: str, *, gold_status: str = "ok") -> QuestionScore:
    """Return the score of a question that is not judged: no rule has a verdict, and it is not executable."""
    verdict = Verdict({}, "no_answer", gold_status=gold_status)
    return QuestionScore(question, outcome, verdict, {}, gold, executable=False)

"""What `crosscheck show RUN QUESTION` prints: the question, what each stage returned, and both results."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from flows.evaluate.exchanges import Exchanges, read_exchanges
from flows.runtime.control import Progress, for_each
from flows.runtime.folders import Folders
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.databases import open_benchmark_database
from tasks.core.errors import CrosscheckError, DatabaseUnavailableError, DataError, similar_name
from tasks.core.outcome import Call
from tasks.core.records import Execution
from tasks.core.wording import counted
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.results.run_record import JsonDocument, RunRecord, at, json_of
from tasks.results.warehouse.views import Rows
from tasks.scoring.execution.rules import RULES, comparable_rows
from tasks.scoring.metrics.causes import classify
from tasks.scoring.scores import KeyVerdict, Opinion, QuestionScore, is_right
from tasks.scoring.variants import Variant, find_variants
from tasks.sql.rewriting import ordering, without_distinct

COMPARED = 1_000
"""Rows of each result that are read to be compared."""
COMPARED_ON_PAGES = 100
"""Rows of each result that are read for a page, which holds the results of many questions."""
WORKERS = 2
"""SQLs that are executed at the same time."""


Differing = tuple[frozenset[int] | None, frozenset[int] | None]
"""Places of the rows of the prediction's result and of the gold's that the other has not; None: not compared."""


class ResultDocument(JsonDocument):
    """The result of a SQL now: its first rows, those before all others that the other result lacks."""

    status: str
    columns: tuple[str, ...]
    rows: Rows
    row_count: int | None
    error: str
    only_here: int
    """How many of the rows the other result lacks."""


class MessageDocument(JsonDocument):
    """A message of a prompt."""

    role: str
    content: str


class CallDocument(JsonDocument):
    """A model call with its prompt and its reply; null where they are not stored."""

    model: str
    cached: bool
    input_tokens: int | None = at("usage", "input")
    output_tokens: int | None = at("usage", "output")
    cost_usd: float | None
    parse: str
    messages: tuple[MessageDocument, ...] | None = None
    reply: str | None = None


class StageDocument(JsonDocument):
    """What a stage made of a question."""

    stage: str = at("label")
    value: Any
    restored: bool
    seconds: float | None
    error: str
    notes: tuple[str, ...]
    calls: tuple[CallDocument, ...]


class FailureDocument(JsonDocument):
    """Why a question has no answer."""

    kind: str
    message: str


class QuestionDocument(JsonDocument):
    """A question as `crosscheck show RUN QUESTION --json` prints it, with whole prompts and replies."""

    run_id: str = at("record", "run_id")
    question_id: str = at("score", "question", "id")
    question: str = at("score", "question", "text")
    evidence: str = at("score", "question", "evidence")
    database: str = at("score", "question", "database_id")
    difficulty: str | None = at("score", "question", "difficulty")
    rule: str = at("record", "rule")
    correct: bool = at("right")
    correct_by_rule: dict[str, bool] = at("score", "final", "correct")
    status: str = at("score", "status")
    error: str = at("score", "final", "error")
    failure: FailureDocument | None = at("score", "outcome", "failure")
    causes: tuple[str, ...]
    sql: str | None = at("score", "outcome", "sql")
    gold_sql: str = at("score", "gold_sql")
    keys: dict[str, KeyVerdict] = at("score", "keys")
    opinion: Opinion | None = at("score", "opinion")
    correct_by_variant: dict[str, bool | None]
    predicted_result: ResultDocument | None = at("results", 0)
    gold_result: ResultDocument | None = at("results", 1)
    results_remark: str = at("remark")
    not_executed: str = at("problem")
    candidates: tuple[dict[str, Any], ...]
    stages: tuple[StageDocument, ...]
    not_stored: str = at("exchanges", "problem")
    notes: tuple[str, ...] = at("score", "outcome", "notes")


@dataclass(frozen=True)
class QuestionView:
    """A question of a run with everything that is known about it. The gold is for reading only."""

    record: RunRecord
    score: QuestionScore  # the question, its stages and verdicts
    causes: tuple[str, ...] = ()  # why it is wrong
    exchanges: Exchanges = field(default_factory=Exchanges)  # prompts and replies
    predicted: Execution | None = None  # result of the final SQL now
    gold: Execution | None = None  # result of the gold SQL now
    problem: str = ""  # why nothing could be executed or classified; "" if it could
    remark: str = ""  # why the verdict is another one than these results have; "" if it is not
    rows: int = 5  # rows of each result that are shown; `predicted` and `gold` may have more, to compare them

    @property
    def right(self) -> bool:
        """Whether the answer is right under the headline rule."""
        return is_right(self.score.final, self.record.rule)

    @property
    def differing(self) -> Differing:
        """The rows that make a wrong answer wrong; under the rule bird a row counts once, however often it is there."""
        if self.right or not self.score.executable:
            return None, None
        return differing_rows(self.predicted, self.gold, sets=self.record.rule == "bird")

    @property
    def variants(self) -> dict[Variant, bool | None]:
        """Whether it is right by each score variant that applies; None: it is not counted."""
        run, score = self.record, self.score
        variants = find_variants(run.settings_of("benchmark"), [score]) if score.executable else {}
        return {variant: variant.judge(score, run.rule) for variant in variants.values()}

    @property
    def correct_by_variant(self) -> dict[str, bool | None]:
        """Whether it is right by each score variant, by the variant's name; None: it is not counted."""
        return {variant.name: right for variant, right in self.variants.items()}

    @property
    def results(self) -> tuple[ResultDocument | None, ...]:
        """The results of the final SQL and of the gold SQL as JSON."""
        pairs = zip((self.predicted, self.gold), self.differing, strict=True)
        return tuple(_result(execution, self.rows, only_here) for execution, only_here in pairs)

    @property
    def candidates(self) -> tuple[dict[str, Any], ...]:
        """The SQL after each stage with its verdict."""
        rows = []
        for step in self.score.outcome.candidates:
            row: dict[str, Any] = {"stage": step.stage, "sql": step.sql, "correct": None, "status": None}
            if verdict := self.score.stages.get(step.stage):
                correct = is_right(verdict, self.record.rule)
                row |= {"correct": correct, "status": verdict.status, "error": verdict.error}
            rows.append(row)
        return tuple(rows)

    @property
    def stages(self) -> tuple[StageDocument, ...]:
        """Its stages, with prompts and replies."""
        return tuple(
            StageDocument.model_validate(record).model_copy(
                update={"calls": tuple(_call(call, self.exchanges) for call in record.calls)}
            )
            for record in self.score.outcome.stages
        )


def find_question(run: RunRecord, reference: str) -> QuestionScore:
    """Return the question with an id."""
    rows = {row.question.id: row for row in run.rows}
    if reference in rows:
        return rows[reference]
    run_id = run.run_id
    if not rows:
        raise DataError(
            f'The run {run_id} has no question "{reference}": none has been scored ({run.status}).'
        )
    hint = "" if reference.isdecimal() else similar_name(reference, rows)  # no number is a misspelt one
    if not hint:
        hint = f"It has {len(rows):,}, from {next(iter(rows))} to {next(reversed(rows))}."
    raise DataError(
        f'The run {run_id} has no question "{reference}". {hint} All of them: '
        f"`crosscheck query \"SELECT question_id FROM questions WHERE run_id = '{run_id}'\"`"
    )


def view_questions(
    run: RunRecord,
    scores: Sequence[QuestionScore],
    folders: Folders,
    *,
    rows: int,
    compared: int = 0,
    progress: Progress | None = None,
) -> list[QuestionView]:
    """Find the prompts and replies of a run's questions, and execute predictions and golds.

    Of each result `rows` rows are shown; at least `compared` are read, so that differing rows can be found.
    """
    progress = progress or Progress()
    progress.step(f"Finding the prompts and replies of {counted(len(scores), 'question')}")
    exchanges = read_exchanges(run, scores, folders)
    try:
        benchmark = folders.benchmark_of(run)
    except CrosscheckError as error:
        return [QuestionView(run, score, exchanges=exchanges, problem=str(error)) for score in scores]
    views = [QuestionView(run, score, exchanges=exchanges, rows=rows) for score in scores]
    return asyncio.run(_execute(views, benchmark, max(rows, compared), progress))


def question_objects(views: Sequence[QuestionView]) -> list[dict[str, Any]]:
    """Return questions as `crosscheck show RUN QUESTION --json` prints them, for pages."""
    return [json_of(QuestionDocument.model_validate(view)) for view in views]


async def _execute(
    views: Sequence[QuestionView], benchmark: Benchmark, rows: int, progress: Progress
) -> list[QuestionView]:
    """Add the results of both SQLs, and the causes of wrong answers, to what is known of questions."""
    databases: dict[str, Database | str] = {}  # or why one cannot be opened
    for name in dict.fromkeys(view.score.question.database_id for view in views):
        if not benchmark.exists(name):
            where = benchmark.location(name)
            databases[name] = f"The database {where} is not there: neither SQL can be executed."
            continue
        try:
            databases[name] = open_benchmark_database(benchmark, name, 0)
        except CrosscheckError as error:
            databases[name] = str(error)
    async with SqlWorkers(WORKERS) as workers:

        async def execute(view: QuestionView) -> QuestionView:
            score = view.score
            database = databases[score.question.database_id]
            if isinstance(database, str):
                return replace(view, problem=database)
            try:
                predicted, gold = [
                    await workers.execute(database, sql, rows=rows, timeout_s=benchmark.settings.timeout_s)
                    if sql
                    else None
                    for sql in (score.outcome.sql, score.gold_sql)
                ]
            except DatabaseUnavailableError as error:
                return replace(view, problem=str(error))
            causes = classify(score, view.record.rule, database.schema)
            executed = replace(view, causes=causes, predicted=predicted, gold=gold)
            return replace(executed, remark=_remark(executed, benchmark, database.dialect))

        return await for_each(views, execute, progress, "Executed prediction and gold of question {}")


def _remark(view: QuestionView, benchmark: Benchmark, dialect: str) -> str:
    """Explain a verdict that the displayed results contradict, if DISTINCT, further golds or databases are why."""
    rule, question = RULES[view.record.rule], view.score.question
    predicted, gold = view.predicted, view.gold
    if not (view.score.executable and predicted and gold and predicted.ok and gold.ok):
        return ""
    same_size = gold.row_count == predicted.row_count
    complete = all(len(result.rows) == result.row_count for result in (gold, predicted))
    if not complete and (same_size or not rule.strips_distinct):
        return ""  # the results were not read to their end, so they cannot be compared
    order = ordering(view.score.gold_sql, dialect)
    equal = complete and rule.matches(gold.rows, predicted.rows, order)
    if equal == view.right:
        return ""
    differ = "are equal, and the answer is wrong" if equal else "differ, and the answer is right"
    sqls = (view.score.outcome.sql or "", view.score.gold_sql)
    reasons = []
    if rule.strips_distinct and any(without_distinct(sql, dialect) != sql for sql in sqls):
        reasons.append(
            f"Rule {view.record.rule} compares both queries without DISTINCT. With DISTINCT, as here, the results "
            f"{differ}."
        )
    if equal and benchmark.suite_paths(question.database_id):
        reasons.append(
            f"On this database the results {differ}: it has to be right on every database of the test suite."
        )
    if not equal and question.id in benchmark.further_gold:
        reasons.append(
            f"The results {differ}: the question has further gold SQL, and one right result is enough."
        )
    return " ".join(reasons)


def differing_rows(predicted: Execution | None, gold: Execution | None, *, sets: bool) -> Differing:
    """Return the places of the rows of each result that the other has not; None where they cannot be compared.

    They cannot if one is missing or has failed, has not been read to its end, or has another number of columns.
    """
    if not (predicted and gold and predicted.ok and gold.ok):
        return None, None
    both_complete = all((execution.row_count or 0) == len(execution.rows) for execution in (predicted, gold))
    if not both_complete or len(predicted.columns) != len(gold.columns):
        return None, None
    predicted_rows, gold_rows = comparable_rows(predicted.rows), comparable_rows(gold.rows)
    return _not_in(predicted_rows, gold_rows, sets=sets), _not_in(gold_rows, predicted_rows, sets=sets)


def _not_in(rows: Sequence[Any], others: Sequence[Any], *, sets: bool) -> frozenset[int]:
    """Return the positions of the rows that `others` lacks; unless as sets, equal rows count as often as they occur."""
    unmatched = Counter(others)
    positions = []
    for position, row in enumerate(rows):
        if not unmatched[row]:
            positions.append(position)
        elif not sets:
            unmatched[row] -= 1
    return frozenset(positions)


def _result(
    execution: Execution | None, rows: int, only_here: frozenset[int] | None
) -> ResultDocument | None:
    """Return the first rows of a result, those that the other result lacks first, with their number."""
    if execution is None:
        return None
    only_here = only_here or frozenset()
    positions = sorted(range(len(execution.rows)), key=lambda position: position not in only_here)[:rows]
    first = tuple(execution.rows[position] for position in positions)
    count = len(only_here.intersection(positions))
    return ResultDocument(**vars(execution) | {"rows": first, "only_here": count})


def _call(call: Call, exchanges: Exchanges) -> CallDocument:
    exchange = exchanges.by_request.get(call.request)
    document = CallDocument.model_validate(call)
    if exchange is None:
        return document
    messages = tuple(map(MessageDocument.model_validate, exchange.messages))
    return document.model_copy(update={"messages": messages, "reply": exchange.reply})

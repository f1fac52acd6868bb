"""Requests a model's opinions on the answers of a run that has ended.

The model sees the gold SQL and its result. It therefore runs after all questions have been answered, and no stage sees
its replies: only the command `judge` imports this module. No score depends on an opinion.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from flows.evaluate.runner import Resources
from flows.runtime.control import Control, Interrupted, until_done_or_stopped
from flows.runtime.folder_use import watched
from flows.runtime.folders import Folders
from flows.runtime.signals import stopping_on_signals
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Origin
from tasks.benchmarks.databases import open_benchmark_database
from tasks.benchmarks.selection import select
from tasks.core.errors import BackboneError, ConfigurationError, DatabaseUnavailableError, DataError
from tasks.core.outcome import Call, StageRecord
from tasks.core.records import Question
from tasks.core.wording import counted, counts, money, percent, shorten, storable
from tasks.database.database import Database
from tasks.documents.model import Block, Bullets, Document, Sentence, Span
from tasks.results.run_record import FINISHED, Count, JsonDocument, RunRecord, at
from tasks.scoring.cost import Cost, calls_in_words, total_cost
from tasks.scoring.scores import Opinion, QuestionScore, Ratio, is_right
from tasks.settings.choices import QuestionSelection
from tasks.settings.evaluation import EvaluationSettings
from tasks.stages import prompts
from tasks.stages.schema_prompt import ExecutedSql, show_result

ROWS = 10
"""Rows of each result that the model is shown."""
MAX_LISTED = 20
STAGE = "opinion"
"""Name under which `unreadable_limit` counts the replies of a judge, and `reply_by_stage` finds their format."""


class OpinionReply(BaseModel):
    """Whether the first query answers the question, and why."""

    right: bool
    reason: str


@dataclass(kw_only=True)
class Judged:
    """Opinions on the answers of a run."""

    run: RunRecord
    backbone: str
    rows: tuple[QuestionScore, ...]  # the answers that are to be judged
    opinions: dict[str, Opinion] = field(default_factory=dict)  # by question id
    failures: dict[str, str] = field(default_factory=dict)  # why there is no opinion, by question id
    calls: list[Call] = field(default_factory=list)
    fatal: BackboneError | None = None  # error that ended the judging; None if all answers were sent

    @property
    def cost(self) -> Cost:
        """What the opinions cost."""
        return total_cost([StageRecord(STAGE, STAGE, None, False, tuple(self.calls))])

    @property
    def paid(self) -> str:
        """Calls and cost in words."""
        return f"{calls_in_words(self.cost)}, cost {money(self.cost.cost_usd)}"

    @property
    def disputed(self) -> tuple[list[str], list[str]]:
        """The questions that are right by EX and wrong in the opinion, and the other way round."""
        right = {row.question.id: is_right(row.final, self.run.rule) for row in self.rows}
        differing = [
            id_ for id_ in right if id_ in self.opinions and self.opinions[id_].right is not right[id_]
        ]
        return [id_ for id_ in differing if right[id_]], [id_ for id_ in differing if not right[id_]]

    @property
    def agreement(self) -> Ratio:
        """Opinions that agree with execution accuracy, of all opinions."""
        total = len(self.opinions)
        return Ratio(total - sum(map(len, self.disputed)), total)


class JudgedDocument(JsonDocument):
    """Opinions as `crosscheck judge --json` prints them and a run's record keeps them."""

    run_id: str = at("run", "run_id")
    backbone: str
    rule: str = at("run", "rule")
    answers: Count = at("rows")
    judged: Count = at("opinions")
    agrees_with_ex: Ratio = at("agreement")
    right_by_ex_wrong_by_model: tuple[str, ...] = at("disputed", 0)
    wrong_by_ex_right_by_model: tuple[str, ...] = at("disputed", 1)
    without_opinion: dict[str, str] = at("failures")
    cost: Cost


def answers_of(
    run: RunRecord, selection: QuestionSelection, *, everything: bool
) -> tuple[QuestionScore, ...]:
    """Return the scored answers of a run that are to be judged: the wrong ones, or all; `limit` counts these."""
    if run.status not in FINISHED:
        raise ConfigurationError(f"The run {run.run_id} is {run.status}: only a finished run can be judged.")
    selected = select([row.question for row in run.rows], selection.model_copy(update={"limit": None}))
    rows = [
        row
        for row in run.rows
        if row.question in selected and row.executable and row.outcome.sql and row.gold_sql
    ]
    if not everything:
        rows = [row for row in rows if not is_right(row.final, run.rule)]
    if not rows:
        kind = "answer" if everything else "wrong answer"
        raise ConfigurationError(f"The run {run.run_id} has no {kind} with a gold SQL among these questions.")
    return tuple(rows[: selection.limit])


def judge_run(
    run: RunRecord, rows: Sequence[QuestionScore], settings: EvaluationSettings, control: Control
) -> Judged:
    """Request an opinion of the settings' backbone on each of these answers."""
    folders = Folders.of(settings)
    benchmark = folders.benchmark_of(run)
    settings = settings.model_copy(update={"benchmark": benchmark.settings})
    names = dict.fromkeys(row.question.database_id for row in rows)
    if missing := [name for name in names if not benchmark.exists(name)]:
        raise DataError(f"There is no database {', '.join(missing)}. {benchmark.where_from}")
    databases = {name: open_benchmark_database(benchmark, name, 0) for name in names}
    judged = Judged(run=run, backbone=settings.backbone.name, rows=tuple(rows))
    with watched(folders.home), asyncio.Runner() as loop, stopping_on_signals(control, loop.get_loop()):
        loop.run(_ask_all(judged, databases, settings, control))
    if control.stop.is_set():
        raise Interrupted(
            "stopped. The replies so far are kept: run the same command again to continue.", control
        )
    if judged.fatal and not judged.opinions:
        problem = f"{judged.fatal} So far: {judged.paid}." if judged.calls else str(judged.fatal)
        if judged.fatal.transient:
            raise BackboneError(problem, transient=True, fatal=True)
        raise ConfigurationError(problem)
    return judged


async def _ask_all(
    judged: Judged, databases: dict[str, Database], settings: EvaluationSettings, control: Control
) -> None:
    gate = asyncio.Semaphore(settings.backbone.most_in_flight)

    async def ask(row: QuestionScore) -> None:
        async with gate:
            if not control.stop.is_set():
                await _ask(judged, row, databases[row.question.database_id], resources)
                failed = f", {len(judged.failures):,} failed" if judged.failures else ""
                answers = counted(len(judged.rows), "answer")
                control.progress.step(f"Judged {len(judged.opinions):,} of {answers}{failed}")

    async with Resources.open(settings, control, persistent=False) as resources:
        await until_done_or_stopped([asyncio.create_task(ask(row)) for row in judged.rows], control)


async def _ask(judged: Judged, row: QuestionScore, database: Database, resources: Resources) -> None:
    """Run both SQLs and ask; a failure is kept, and one that all others will meet ends the judging."""
    question = row.question
    if resources.control.is_over(judged.fatal):
        judged.failures[question.id] = f"not sent, because: {judged.fatal}"
        return
    model = resources.tools.backbone.fresh(Origin(question.id, question.database_id, STAGE))
    candidates = []
    try:
        for sql in (row.outcome.sql or "", row.gold_sql):
            execution = await resources.tools.workers.execute(
                database, sql, rows=ROWS, timeout_s=resources.settings.benchmark.timeout_s
            )
            candidates.append(ExecutedSql(sql, show_result(execution, ROWS, counts=True)))
        reply = await ask_opinion(question, database.schema.dialect_name, candidates, model)
    except (BackboneError, DatabaseUnavailableError) as error:
        judged.failures[question.id] = str(error)
        if isinstance(error, BackboneError) and error.fatal:
            judged.fatal = judged.fatal or error
    else:
        if reply is None:
            judged.failures[question.id] = "; ".join(model.notes)
        else:
            judged.opinions[question.id] = Opinion(judged.backbone, reply.right, storable(reply.reason))
    judged.calls += model.calls


async def ask_opinion(
    question: Question, dialect: str, candidates: Sequence[ExecutedSql], model: MeteredBackbone
) -> OpinionReply | None:
    """Request an opinion on the first of two SQLs, of which the second is the gold; None if it cannot be read."""
    messages = prompts.messages(STAGE, question=question, dialect=dialect, candidates=candidates)
    return await model.ask_json(messages, OpinionReply)


def judged_document(judged: Judged) -> Document:
    """Return the agreement of the opinions with EX, what they cost, and the answers without one."""
    run, agreement = judged.run, judged.agreement
    blocks: list[Block] = [
        Sentence(f"agrees with EX (rule {run.rule}): {percent(agreement)} ({counts(agreement)})"),
        Sentence(judged.paid),
    ]
    if disputed := judged.disputed[1]:
        blocks.append(Sentence(f"wrong by EX, right in its opinion: {shorten(disputed, MAX_LISTED)}"))
    if failures := tuple(f"{question}: {reason}" for question, reason in judged.failures.items()):
        title = f"no opinion on {len(failures):,} of {counted(len(judged.rows), 'answer')}; --json lists all"
        blocks += [Sentence(title, "warning"), Bullets(failures[:MAX_LISTED])]
        blocks.append(
            Sentence(
                "Run the same command again to retry failed calls. A reply that cannot be read is kept and read again: "
                "choose another model, or another reply format (--set backbone.reply)."
            )
        )
    opinions = f"{counted(len(judged.opinions), 'opinion')} of "
    return Document(
        "", tuple(blocks), (opinions, Span(judged.backbone, "strong"), f" on the run {run.run_id}")
    )

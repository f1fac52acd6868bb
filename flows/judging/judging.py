"""Requests a model's opinions on the answers of a run that has ended."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from flows.judging.judged import Judged, Opinions, name_accuracy
from flows.judging.opinion import PROMPTS, ask_opinion
from flows.questions.budget import why_no_budget
from flows.runtime.control import Control, Interrupted
from flows.runtime.folder_use import watched
from flows.runtime.folders import Folders
from flows.runtime.signals import stopping_on_signals
from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.check.known import KnownEndpoints
from tasks.backbone.kinds.kind import check_backbone
from tasks.backbone.kinds.opening import Layers, open_backbone
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.pricing import Budget
from tasks.backbone.protocol import Origin
from tasks.benchmarks.benchmark import Benchmark
from tasks.benchmarks.databases import open_benchmark_database
from tasks.benchmarks.selection import select
from tasks.core.errors import BackboneError, ConfigurationError, DatabaseUnavailableError, DataError
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.report import QuestionScore, is_right
from tasks.settings.backbone import BackboneSettings
from tasks.settings.home import find_conf, find_replies
from tasks.settings.load import load_backbone_settings, parse_override
from tasks.stage_runs import prompts
from tasks.stages.shown_results import ExecutedSql, show_result
from tasks.tracking.evaluation import FINISHED
from tasks.tracking.measured_judges import judge_key
from tasks.tracking.warehouse.stored import StoredRun

ROWS = 10
"""Rows of each result that the model is shown."""
STAGE = "opinion"
"""Name under which `unreadable_limit` counts the replies of a judge, and `reply_by_stage` finds their format."""


@dataclass(frozen=True)
class JudgeSettings:
    """Settings of asking for opinions."""

    backbone: BackboneSettings  # the model
    folders: Folders  # of the benchmarks' files, and of the cache of replies
    budget: Budget | None = None  # limit on the cost; None: there is none


def judging_backbone(name: str, overrides: Sequence[str], *, budget: float | None) -> BackboneSettings:
    """Return the settings of the model that judges, after checking that a budget can be kept.

    Raises:
        ConfigurationError: there is no such model, a setting is of something else, or a budget has no prices.
    """
    for override in overrides:
        if parse_override(override)[0] != "backbone":
            raise ConfigurationError(
                f"--set {override}: only backbone.* can be set here: the answers are given."
            )
    settings = load_backbone_settings(find_conf(), name, overrides)
    check_backbone(settings)
    if budget is not None and (why := why_no_budget(settings)):
        raise ConfigurationError(
            f"--budget {budget:g}: what the backbone {settings.name} costs is unknown beforehand: {why}. Give it "
            "prices with --set backbone.prices, or leave the budget out."
        )
    return settings


def answers_of(
    stored: StoredRun, *, limit: int | None, ids: str | None, everything: bool
) -> tuple[QuestionScore, ...]:
    """Return the scored answers of a run that are to be judged: the wrong ones, or all.

    Raises:
        ConfigurationError: the run has not ended, or has no such answer.
    """
    if stored.status not in FINISHED:
        raise ConfigurationError(
            f"The run {stored.run.run_id} is {stored.status}: opinions are on the answers of a run that has ended."
        )
    chosen = {question.id for question in select([row.question for row in stored.rows], limit=None, ids=ids)}
    rows = [
        row
        for row in stored.rows
        if row.question.id in chosen and row.executable and row.outcome.sql and row.gold_sql
    ]
    rows = [row for row in rows if everything or not is_right(row.final, stored.run.rule)][:limit]
    if not rows:
        kind = "answer with a gold SQL" if everything else "wrong answer with a gold SQL"
        raise ConfigurationError(
            f"The run {stored.run.run_id} has no {kind} among these questions: nothing to judge."
        )
    return tuple(rows)


def judge_run(
    stored: StoredRun, rows: Sequence[QuestionScore], settings: JudgeSettings, control: Control
) -> Judged:
    """Request an opinion on each of these answers of a run that has ended.

    Raises:
        CrosscheckError: the benchmark cannot be read, or no opinion could be had.
        Interrupted: the user stopped it; replies so far are kept in the cache.
    """
    control.progress.step(f"Reading {stored.run.benchmark}")
    benchmark = settings.folders.benchmark_of(stored)
    judged = Judged(
        run=stored, backbone=settings.backbone.name, rows=tuple(rows), timeout_s=benchmark.settings.timeout_s
    )
    ask_all(judged, benchmark, settings, control)
    return judged


def ask_all(found: Opinions, benchmark: Benchmark, settings: JudgeSettings, control: Control) -> None:
    """Request an opinion on each answer, and name the accuracy of the judge where it was measured.

    Raises:
        CrosscheckError: a database is missing, or no opinion could be had.
        Interrupted: the user stopped it; replies so far are kept in the cache.
    """
    names = dict.fromkeys(row.question.database_id for row in found.rows)
    if missing := [name for name in names if not benchmark.exists(name)]:
        raise DataError(
            f"The databases {', '.join(missing)} are not there, so no result can be shown. {benchmark.where_from}"
        )
    databases = {name: open_benchmark_database(benchmark, name, 0) for name in names}
    with (
        watched(settings.folders.home),
        asyncio.Runner() as loop,
        stopping_on_signals(control, loop.get_loop()),
    ):
        loop.run(_judge(found, databases, settings, control))
    if control.stop.is_set():
        raise Interrupted(
            "stopped. The replies so far are kept: run the same command again to continue.", control
        )
    if found.fatal and not found.opinions:
        raise found.fatal if found.fatal.transient else ConfigurationError(str(found.fatal))
    name_accuracy(found, settings.folders.home)


async def _judge(
    judged: Opinions, databases: Mapping[str, Database], settings: JudgeSettings, control: Control
) -> None:
    gate = asyncio.Semaphore(settings.backbone.most_in_flight)
    with open_reply_cache(find_replies(settings.folders.home)) as cache:
        async with (
            SqlWorkers() as workers,
            open_backbone(
                settings.backbone,
                Layers(
                    cache,
                    settings.budget,
                    endpoints=KnownEndpoints(settings.folders.home.endpoints, control.progress.note),
                    stop_now=control.stop_now,
                    given_up=control.give_up,
                ),
            ) as backbone,
        ):

            async def one(row: QuestionScore) -> None:
                async with gate:
                    if control.stop.is_set():
                        return
                    await _ask(judged, row, databases[row.question.database_id], workers, backbone)
                    done = len(judged.opinions) + len(judged.failures)
                    control.progress.step(f"Judged {done:,} of {len(judged.rows):,} answers")

            asking: asyncio.Future[Any] = asyncio.gather(*map(one, judged.rows))
            stopping: asyncio.Future[Any] = asyncio.ensure_future(control.stop_now.wait())
            await asyncio.wait({asking, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not asking.done():
                asking.cancel()
            with suppress(asyncio.CancelledError):
                await asking
            # known after the first request: the response mode may be found out by it
            judged.judge = judge_key(
                {"backbone": dict(backbone.identity), "prompts": prompts.digest(*PROMPTS), "rows": ROWS}
            )


async def _ask(
    judged: Opinions, row: QuestionScore, database: Database, workers: SqlWorkers, backbone: MeteredBackbone
) -> None:
    """Run the SQLs and request an opinion; a failure is kept, and one that all others will meet ends the judging."""
    if judged.fatal:
        judged.failures[row.question.id] = f"not sent, because: {judged.fatal}"
        judged.unsent += 1
        return
    fresh = backbone.fresh(Origin(row.question.id, row.question.database_id, STAGE))
    sqls = [row.outcome.sql or "", *([row.gold_sql] if row.gold_sql else [])]
    try:
        found = [await workers.execute(database, sql, rows=ROWS, timeout_s=judged.timeout_s) for sql in sqls]
        judged.results[row.question.id] = found
        shown = [
            ExecutedSql(sql, show_result(each, ROWS, counts=True))
            for sql, each in zip(sqls, found, strict=True)
        ]
        opinion = await ask_opinion(row.question, database.schema, shown, fresh, judged.backbone)
    except (BackboneError, DatabaseUnavailableError) as error:
        judged.failures[row.question.id] = str(error)
        judged.unsent += 1
        if isinstance(error, BackboneError) and error.fatal:
            judged.fatal = judged.fatal or error
    else:
        if opinion is None:
            judged.failures[row.question.id] = "; ".join(fresh.notes)
        else:
            judged.opinions[row.question.id] = opinion
    judged.calls += fresh.calls

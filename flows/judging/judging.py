"""Opinions of a model on the answers of a run, asked when everything is answered; never part of a score."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from flows.judging.opinion import ask_opinion
from flows.runtime.budget import Budget, with_budget
from flows.runtime.control import Control, Interrupted
from flows.runtime.folders import Folders
from flows.runtime.signals import stopping_on_signals
from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.kinds.kind import check_backbone, kind_of
from tasks.backbone.kinds.opening import open_backbone
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.pricing import prices_for
from tasks.backbone.reply_formats import ReplyFormats
from tasks.benchmarks.databases import open_benchmark_database
from tasks.database.database import Database
from tasks.database.sandbox.workers import SqlWorkers
from tasks.errors import BackboneError, ConfigurationError, DataError
from tasks.records import Call, StageRecord
from tasks.scoring.cost import total_cost
from tasks.scoring.report import Cost, Opinion, QuestionScore, Ratio, is_right
from tasks.settings.backbone import BackboneSettings
from tasks.settings.home import find_conf
from tasks.settings.load import load_backbone_settings, parse_override
from tasks.settings.stores import find_replies
from tasks.stages.shown_results import Tried, show_result
from tasks.tracking.warehouse.runs import StoredRun

ROWS = 10
"""Rows of each result that the model is shown."""


@dataclass(frozen=True)
class JudgeSettings:
    """Settings of asking for opinions.

    Attributes:
        backbone: the model.
        folders: of the benchmarks' files, and of the cache of replies.
        budget: limit on the cost; None: there is none.
    """

    backbone: BackboneSettings
    folders: Folders
    budget: Budget | None = None


@dataclass
class Judged:
    """Opinions on the answers of a run.

    Attributes:
        run: the run.
        backbone: name of the model.
        rows: the answers that were to be judged.
        timeout_s: limit per query, in seconds.
        opinions: by question id.
        failures: why there is no opinion, by question id.
        calls: every call.
        fatal: error message that ended asking, "" if all answers were asked about.
    """

    run: StoredRun
    backbone: str
    rows: tuple[QuestionScore, ...] = field(repr=False)
    timeout_s: float = 30.0
    opinions: dict[str, Opinion] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list, repr=False)
    fatal: str = ""

    @property
    def cost(self) -> Cost:
        """What the opinions cost; what the cache served is counted apart."""
        return total_cost([StageRecord("opinion", "opinion", None, False, tuple(self.calls))])

    @property
    def table(self) -> Mapping[tuple[bool, bool], int]:
        """Number of opinions by whether EX and by whether the model calls the answer right."""
        counts = {(ex, model): 0 for ex in (True, False) for model in (True, False)}
        for row in self.rows:
            if opinion := self.opinions.get(row.question.id):
                counts[is_right(row.final, self.run.run.rule), opinion.right] += 1
        return counts

    @property
    def agreement(self) -> Ratio:
        """Opinions that agree with execution accuracy, of all opinions."""
        table = self.table
        return Ratio(table[True, True] + table[False, False], sum(table.values()))

    @property
    def other(self) -> tuple[str, ...]:
        """Ids of answers that are wrong by EX and right in the model's opinion: perhaps the gold is wrong."""
        rule = self.run.run.rule
        return tuple(
            row.question.id
            for row in self.rows
            if (found := self.opinions.get(row.question.id)) and found.right and not is_right(row.final, rule)
        )

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON; what is not known is null."""
        table = self.table
        return {
            "run_id": self.run.run.run_id,
            "backbone": self.backbone,
            "rule": self.run.run.rule,
            "asked": len(self.rows),
            "judged": len(self.opinions),
            "agrees_with_ex": self.agreement.as_object(),
            "ex_wrong": {"model_right": table[False, True], "model_wrong": table[False, False]},
            "ex_right": {"model_right": table[True, True], "model_wrong": table[True, False]},
            "wrong_by_ex_right_by_model": list(self.other),
            "without_opinion": self.failures,
            **self.cost.as_object(),
        }


def judging_backbone(name: str, overrides: Sequence[str], *, budget: float | None) -> BackboneSettings:
    """Return the settings of the model that judges, after checking that it can be asked within a budget.

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
    if budget is not None and kind_of(settings).paid and prices_for(settings) is None:
        raise ConfigurationError(
            f"--budget {budget:g}: the backbone {settings.name} has no prices, so nothing could be counted. Give it "
            "some with --set backbone.prices, or leave the budget out."
        )
    return settings


def judge_run(
    stored: StoredRun, rows: Sequence[QuestionScore], settings: JudgeSettings, control: Control
) -> Judged:
    """Ask for an opinion on each of these answers of a run that has ended.

    Raises:
        CrosscheckError: the benchmark cannot be read, or no opinion could be had.
        Interrupted: the user asked to stop; replies so far are kept in the cache.
    """
    control.progress.step(f"Reading {stored.run.benchmark}")
    benchmark = settings.folders.benchmark_of(stored)
    names = dict.fromkeys(row.question.database_id for row in rows)
    if missing := [name for name in names if not benchmark.exists(name)]:
        raise DataError(
            f"The databases {', '.join(missing)} are not there, so no result can be shown. {benchmark.where_from}"
        )
    databases = {name: open_benchmark_database(benchmark, name, 0) for name in names}
    judged = Judged(stored, settings.backbone.name, tuple(rows), benchmark.settings.timeout_s)
    with asyncio.Runner() as loop, stopping_on_signals(control, loop.get_loop()):
        loop.run(_judge(judged, databases, settings, control))
    if control.stop.is_set():
        raise Interrupted("stopped. The replies so far are kept: the same command continues.")
    if judged.fatal and not judged.opinions:
        raise BackboneError(judged.fatal, transient=True)
    return judged


async def _judge(
    judged: Judged, databases: Mapping[str, Database], settings: JudgeSettings, control: Control
) -> None:
    gate = asyncio.Semaphore(settings.backbone.concurrency)
    with open_reply_cache(find_replies(settings.folders.home)) as cache:
        async with (
            SqlWorkers() as workers,
            open_backbone(settings.backbone, cache=cache, stop_now=control.stop_now) as opened,
        ):
            paid = with_budget(settings.budget, opened, settings.backbone)
            backbone = MeteredBackbone(paid, ReplyFormats.of(settings.backbone))

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


async def _ask(
    judged: Judged, row: QuestionScore, database: Database, workers: SqlWorkers, backbone: MeteredBackbone
) -> None:
    """Run both SQLs and ask about them; a failure is kept, and one that all others will meet ends the asking."""
    if judged.fatal:
        judged.failures[row.question.id] = f"not asked, because: {judged.fatal}"
        return
    shown = []
    for sql in (row.outcome.sql or "", row.gold_sql):
        found = await workers.execute(database, sql, rows=ROWS, timeout_s=judged.timeout_s)
        shown.append(Tried(sql, show_result(found, ROWS, counts=True)))
    fresh = backbone.fresh()
    try:
        opinion = await ask_opinion(row.question, database.schema.dialect_name, shown, fresh, judged.backbone)
    except BackboneError as error:
        judged.failures[row.question.id] = str(error)
        judged.fatal = judged.fatal or (str(error) if error.fatal else "")
    else:
        if opinion is None:
            judged.failures[row.question.id] = "; ".join(fresh.notes)
        else:
            judged.opinions[row.question.id] = opinion
    judged.calls += fresh.calls

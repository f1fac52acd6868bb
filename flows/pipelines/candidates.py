"""Candidates: a pipeline is run several times for a question, and one of its answers is selected by what they return.

It works with any pipeline, which does not know of it: each run has a view of its backbone, a record of its steps and a
question run of its own. Gold SQL plays no part; candidates are scored when the question has its answer.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, TypeVar

from flows.pipelines.pipeline import Context, Pipeline, PipelineRecord, demand_sql, results_or_raise
from tasks.backbone.metered import MeteredBackbone
from tasks.core.errors import BackboneError
from tasks.core.outcome import Candidate
from tasks.core.records import Question
from tasks.core.registry import awaitable
from tasks.database.schema_text import SchemaView
from tasks.scoring.candidates import step_of
from tasks.scoring.execution.judge_job import Ballot
from tasks.settings.pipeline import CandidateSettings
from tasks.sql.elements import resolved_elements
from tasks.stages.candidates import (
    CandidateGroup,
    MergeRequest,
    QueryPair,
    compare_candidates,
    merge_candidates,
    vote,
)
from tasks.stages.question_run import QuestionRun, current_question_run, in_question_run

T = TypeVar("T")
Group = tuple[int, ...]
"""Places, from 0, of candidates with equal results."""


@dataclass(frozen=True)
class Candidates:
    """A pipeline whose answer is selected from several runs of it."""

    pipeline: Pipeline[Any]  # writes a candidate
    writers: tuple[MeteredBackbone, ...]  # backbones that write them in turns
    rule: str  # by which results are equal: the benchmark's
    temperature: float | None = None  # at which the run's backbone selects; None: its own

    async def answer(self, question: Question, context: Context[Any]) -> str | None:
        """Write the candidates, vote by their results, and select one."""
        settings = context.settings.candidates
        record = context.record
        sqls = await self.write(question, context)
        record.candidates += [Candidate(step_of(number), sql) for number, sql in enumerate(sqls, 1)]
        ballot = await vote(sqls, self.rule, context.runner)
        sql = await CandidateSelection(self, question, context, sqls, ballot).select()
        record.candidates.append(Candidate(settings.select, sql))
        return sql

    async def write(self, question: Question, context: Context[Any]) -> tuple[str | None, ...]:
        """Run the pipeline for every candidate, at the same time; return their SQL.

        The first one's steps and links are recorded as those of the pipeline. A candidate whose backbone refuses it
        for good has no SQL, unless all are refused. Another error is raised when all others are written, so that their
        calls are kept.
        """
        question_run = current_question_run()
        count = context.settings.candidates.n
        question_runs = [question_run.for_candidate(number) for number in range(1, count + 1)]
        contexts = [self.context_of(index, context) for index in range(count)]
        answers = await asyncio.gather(
            *(self._run(question, *arguments) for arguments in zip(contexts, question_runs, strict=True)),
            return_exceptions=True,
        )
        for number, (own_run, own_context) in enumerate(zip(question_runs, contexts, strict=True), 1):
            question_run.join(own_run)
            context.record.notes += [f"candidate {number}: {note}" for note in own_context.record.notes]
        context.record.candidates += contexts[0].record.candidates
        context.record.links |= contexts[0].record.links
        return _without_refused(answers, context.record)

    def context_of(self, index: int, context: Context[Any]) -> Context[Any]:
        """Return the context of a candidate by its index, from 0.

        Its position among the candidates of its backbone is part of every request's key, so that more candidates later
        cost only those that are new, and the first is what the backbone answers without candidates.
        """
        settings: CandidateSettings = context.settings.candidates
        writer = self.writers[index % len(self.writers)]
        position = index // (len(settings.backbones) or 1)
        own = replace(
            context,
            backbone=writer.for_candidate(position),
            eliminator=context.eliminator and context.eliminator.for_candidate(position),
            record=PipelineRecord(),
        )
        if index and settings.schema_formats:
            schema_format = settings.schema_formats[(index - 1) % len(settings.schema_formats)]
            prompt = context.settings.prompt.model_copy(update={"schema_format": schema_format})
            own = replace(own, settings=context.settings.model_copy(update={"prompt": prompt}))
        if settings.demonstrations == "same" or not index:
            return own
        order = f"{settings.seed} {index}"
        return replace(
            own,
            demonstrations=_shuffle(context.demonstrations, order),
            grounded=_shuffle(context.grounded, order),
            aligned=context.aligned and _shuffle(context.aligned, order),
        )

    async def _run(self, question: Question, context: Context[Any], question_run: QuestionRun) -> str | None:
        with in_question_run(question_run):
            return demand_sql(await awaitable(self.pipeline.answer, question, context))


@dataclass(frozen=True)
class CandidateSelection:
    """The selection of one candidate of a question."""

    candidates: Candidates  # how they were written, and how the run's backbone selects
    question: Question
    context: Context[Any]  # that of the question; its backbone is the run's
    sqls: Sequence[str | None]  # the candidates' SQL
    ballot: Ballot  # their results

    async def select(self) -> str | None:
        """Return the selected SQL; the vote's where fewer than two different results are there to choose from."""
        groups = self.ballot.contenders
        settings = self.context.settings.candidates
        if settings.select == "vote" or len(groups) < 2:
            return self.sqls[self.ballot.winner()]
        view = await self.used_tables(groups)
        if settings.select == "merge":
            return await self.merged(groups[: settings.merged], view)
        contest = self.all_against_all if settings.select == "pairwise" else self.knockout
        return self._sql(await contest(groups, view))

    async def all_against_all(self, groups: Sequence[Group], view: SchemaView) -> Group:
        """Compare each two results in both orders, and return the one preferred most often (CHASE-SQL, Algorithm 3).

        Ties are the vote's. The paper also compares candidates with equal results, which decides nothing.
        """
        pairs = list(permutations(groups, 2))
        preferred = results_or_raise(
            await asyncio.gather(*(self._better(*pair, view) for pair in pairs), return_exceptions=True)
        )
        wins = {group: sum(better == group for better in preferred) for group in groups}
        return max(groups, key=lambda group: wins[group])

    async def knockout(self, groups: Sequence[Group], view: SchemaView) -> Group:
        """Compare the vote's result with the next one, the better of them with the next, and so on; return the last."""
        best, *challengers = groups
        for challenger in challengers:
            best = await self._better(best, challenger, view) or best
        return best

    async def merged(self, groups: Sequence[Group], view: SchemaView) -> str:
        """Return the query that the backbone writes from those with the most frequent results."""
        settings: CandidateSettings = self.context.settings.candidates
        candidates = tuple(CandidateGroup(self._sql(group), len(group)) for group in groups)
        request = MergeRequest(candidates, settings.rows_shown, self.candidates.temperature)
        runner, backbone = self.context.runner, self.context.backbone
        return (await merge_candidates(self.question, view, request, runner, backbone)).sql

    async def _better(self, first: Group, second: Group, view: SchemaView) -> Group | None:
        """Return the group whose SQL the backbone prefers; None where it prefers neither."""
        settings: CandidateSettings = self.context.settings.candidates
        pair = QueryPair(
            self._sql(first), self._sql(second), settings.rows_shown, self.candidates.temperature
        )
        runner, backbone = self.context.runner, self.context.backbone
        comparison = await compare_candidates(self.question, view, pair, runner, backbone)
        return {"first": first, "second": second}.get(comparison.preferred)

    async def used_tables(self, groups: Sequence[Group]) -> SchemaView:
        """Return the view of the tables that the candidates use (the union of their schemas in Algorithm 3)."""
        full = await self.context.view_for(self.question, descriptions=True)
        used = {
            table for group in groups for table in resolved_elements(self._sql(group), full.schema).tables
        }
        return full.limited_to(used)

    def _sql(self, group: Group) -> str:
        return self.sqls[group[0]] or ""


def _without_refused(
    answers: Sequence[str | BaseException | None], record: PipelineRecord
) -> tuple[str | None, ...]:
    """Return the candidates' SQL, None where the backbone refused one for good; raise any other error."""
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    if other_errors := [error for error in errors if not _is_refusal(error)]:
        raise other_errors[0]
    if len(errors) == len(answers):
        raise errors[0]
    for number, answer in enumerate(answers, 1):
        if isinstance(answer, BaseException):
            record.note(f"candidate {number} was refused: {answer}")
    return tuple(None if isinstance(answer, BaseException) else answer for answer in answers)


def _is_refusal(error: BaseException) -> bool:
    return isinstance(error, BackboneError) and not (error.transient or error.fatal)


def _shuffle(demonstrations: tuple[T, ...], order: str) -> tuple[T, ...]:
    # The same order on every machine; nothing here has to be secret.
    return tuple(random.Random(order).sample(demonstrations, len(demonstrations)))

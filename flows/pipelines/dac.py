"""DAC: initial SQL, entity linking, skeleton parsing, correction by what they find missing (arXiv 2408.08779)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from flows.pipelines.context import Context
from flows.pipelines.pipeline import pipeline
from tasks.dac_records import (
    CANDIDATE,
    AlignedToken,
    Alignment,
    Feedback,
    ParsedSkeleton,
    RevisionRequest,
)
from tasks.database.schema_view import SchemaView
from tasks.errors import ConfigurationError
from tasks.records import Question
from tasks.settings.pipeline import DacCorrectionSettings, DacSettings
from tasks.stages.dac.dac_correction import dac_correction
from tasks.stages.dac.entity_linking import entity_linking
from tasks.stages.dac.execution_feedback import execution_feedback
from tasks.stages.dac.initial_sql import initial_sql
from tasks.stages.dac.question_values import question_values, with_mentioned_values
from tasks.stages.dac.skeleton_parsing import skeleton_parsing
from tasks.stages.dac.sql_differences import missing_entities, other_skeleton

T = TypeVar("T")
Check = Callable[[str | None], Feedback | None]
"""Finds what is wrong with a SQL, by one kind of feedback; None when nothing is."""


@pipeline(DacSettings, name="dac")
async def dac(question: Question, context: Context[DacSettings]) -> str | None:
    """Write a few-shot SQL, then correct it by decomposition."""
    settings, record = context.settings, context.record
    full = await context.view_for(question, descriptions=settings.descriptions)
    decomposition = await decompose(question, full, settings.dac, context)

    demonstrations = context.grounded_demonstrations(settings.demonstrations.k)
    answer = await initial_sql(question, decomposition.view, demonstrations, context.backbone)
    return await decomposition.correct(record.sql("initial_sql", answer.sql))


async def decompose(
    question: Question, full: SchemaView, settings: DacCorrectionSettings, context: Context[Any]
) -> "Decomposition":
    """Prepare DAC's correction of a question, for any pipeline.

    Args:
        question: the question and its evidence.
        full: the view of the full schema.
        settings: the switches.
        context: the pipeline's, with `grounded` demonstrations, and an `oracle` where the settings ask for one.
    """
    view = await with_question_values(question, full, settings, context)
    return Decomposition(question, view, settings, context)


async def with_question_values(
    question: Question, view: SchemaView, settings: DacCorrectionSettings, context: Context[Any]
) -> SchemaView:
    """Return the view with the values that the question mentions before the sample rows.

    A prompt that shows retrieved values (SEA-SQL) has such values already, and keeps them.
    """
    if not settings.values or view.prompt.values != "rows":
        return view
    found = await question_values(question, view.schema, settings.values, context.runner)
    return view.with_samples(with_mentioned_values(view.schema, found, settings.values), settings.values)


@dataclass(frozen=True)
class Decomposition:
    """DAC's correction of one question.

    Attributes:
        question: the question and its evidence.
        view: the view of the full schema, its samples being the values to show.
        settings: the switches.
        context: the pipeline's.
    """

    question: Question
    view: SchemaView
    settings: DacCorrectionSettings
    context: Context[Any]

    async def correct(self, sql: str | None) -> str | None:
        """Section 3.4: feed an execution error back first, then missing entities, then another skeleton."""
        settings, record, schema = self.settings, self.context.record, self.view.schema
        if settings.execution:
            failing, error = sql, await execution_feedback(sql, self.context.runner)
            # a SQL is only ever replaced by one that executes
            sql = await self.until_satisfied(lambda sql: error if sql == failing else None, sql)
            record.sql(f"{CANDIDATE}execution", sql)

        linked, parsed = await asyncio.gather(self.link(sql), self.parse())

        if settings.entities:
            sql = await self.until_satisfied(
                lambda sql: missing_entities(sql, linked.entities, schema), sql, linked.tokens
            )
            record.sql(f"{CANDIDATE}entities", sql)
        if settings.skeleton:
            sql = await self.until_satisfied(
                lambda sql: other_skeleton(
                    sql, parsed.skeleton, schema.dialect, never_longer=settings.never_longer
                ),
                sql,
                linked.tokens,
            )
            record.sql(f"{CANDIDATE}skeleton", sql)
        return sql

    async def until_satisfied(
        self, check: Check, sql: str | None, tokens: tuple[AlignedToken, ...] = ()
    ) -> str | None:
        """Correct by one kind of feedback until it is satisfied, brings no change, or its rounds are used up."""
        for round in range(self.settings.rounds):
            feedback = check(sql)
            if feedback is None:
                break
            temperature = self.settings.later_temperature if round else None
            request = RevisionRequest(sql, feedback, tokens, round, temperature)
            revision = await dac_correction(
                self.question, self.view, request, self.context.runner, self.context.backbone
            )
            sql = revision.sql
            if revision.outcome == "unchanged":
                break
        return sql

    async def link(self, sql: str | None) -> Alignment:
        """Section 3.2: what the question mentions."""
        if not self.settings.entities:
            return Alignment()
        if self.settings.oracle_entities:
            return Alignment(
                entities=self._given(self.context.oracle.entities if self.context.oracle else None)
            )
        demonstrations = self.context.grounded_demonstrations(self.settings.shots)
        alignment = await entity_linking(self.question, self.view, demonstrations, sql, self.context.backbone)
        self._note("entity linking", alignment.note)
        return alignment

    async def parse(self) -> ParsedSkeleton:
        """Section 3.3: the skeleton of the SQL, from the question alone."""
        if not self.settings.skeleton:
            return ParsedSkeleton(None)
        if self.settings.oracle_skeleton:
            return self._given(self.context.oracle.skeleton if self.context.oracle else None)
        parsed = await skeleton_parsing(
            self.question,
            self.view.dialect,
            self.context.grounded_demonstrations(self.settings.shots),
            self.context.backbone,
            evidence=self.settings.skeleton_evidence,
        )
        self._note("skeleton parsing", parsed.note)
        return parsed

    def _note(self, part: str, note: str) -> None:
        if note:
            self.context.record.note(f"{part}: {note}")

    def _given(self, part: T | None) -> T:
        if part is None:
            raise ConfigurationError(
                f"dac.oracle is {self.settings.oracle}, but there is nothing from the gold SQL: an oracle is for an "
                'analysis by `crosscheck evaluate` only. Turn it off: "--set pipeline.dac.oracle=none".'
            )
        return part

"""DAC: initial SQL, entity linking, skeleton parsing, correction by what they find missing (arXiv 2408.08779)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from flows.pipelines.context import Context
from flows.pipelines.pipeline import pipeline
from flows.pipelines.values import with_retrieved_values
from tasks.dac_records import (
    CANDIDATE,
    AlignedToken,
    Alignment,
    Feedback,
    ParsedSkeleton,
)
from tasks.database.schema import Schema
from tasks.errors import ConfigurationError
from tasks.records import Question
from tasks.retrieval.alignment import GroundedDemonstration
from tasks.settings.pipeline import DacCorrectionSettings, DacSettings, PromptSettings
from tasks.stages.dac.dac_correction import dac_correction
from tasks.stages.dac.entity_linking import entity_linking
from tasks.stages.dac.execution_feedback import execution_feedback
from tasks.stages.dac.initial_sql import initial_sql
from tasks.stages.dac.question_values import question_values, with_values
from tasks.stages.dac.skeleton_parsing import skeleton_parsing
from tasks.stages.dac.sql_differences import missing_entities, other_skeleton

T = TypeVar("T")
Check = Callable[[str | None], Feedback | None]
"""What is wrong with a SQL, by one kind of feedback; None when nothing is."""


@pipeline(DacSettings, name="dac")
async def dac(question: Question, context: Context[DacSettings]) -> str | None:
    """Write a few-shot SQL, then correct it by decomposition."""
    context = await with_retrieved_values(question, context)
    settings = context.settings
    decomposition = await decompose(question, settings.dac, context, descriptions=settings.descriptions)
    answer = await initial_sql(
        question,
        decomposition.schema,
        decomposition.prompt,
        decomposition.grounded[: settings.demonstrations.k],
        settings.descriptions,
        context.backbone,
    )
    return await decomposition.correct(context.path.sql("initial_sql", answer.sql))


async def correct_by_decomposition(
    question: Question,
    sql: str | None,
    settings: DacCorrectionSettings,
    context: Context[Any],
    *,
    descriptions: bool = False,
) -> str | None:
    """Correct the SQL that any pipeline arrived at.

    Args:
        question: the question and its evidence.
        sql: the SQL that comes in; None where there is none.
        settings: the switches.
        context: the pipeline's, with `grounded` demonstrations, and an `oracle` where the settings ask for one.
        descriptions: show column descriptions.
    """
    decomposition = await decompose(question, settings, context, descriptions=descriptions)
    return await decomposition.correct(sql)


async def decompose(
    question: Question, settings: DacCorrectionSettings, context: Context[Any], *, descriptions: bool
) -> "Decomposition":
    """Put the values that the question mentions into the schema, for all that follows.

    A prompt that shows retrieved values (SEA-SQL) has such values already, and keeps them.
    """
    schema, prompt = context.schema, context.settings.prompt
    if settings.values and prompt.values == "rows":
        found = await question_values(question, schema, settings.values, context.runner)
        schema = with_values(schema, found, settings.values)
        prompt = prompt.model_copy(update={"sample_rows": settings.values})
    grounded = context.grounded
    if not context.settings.demonstrations.evidence:
        grounded = tuple(replace(one, evidence="") for one in grounded)
    return Decomposition(question, schema, prompt, grounded, settings, context, descriptions)


@dataclass(frozen=True)
class Decomposition:
    """DAC's correction of one question.

    Attributes:
        question: the question and its evidence.
        schema: the full schema, its samples being the values to show.
        prompt: how it is shown.
        grounded: the demonstrations, with or without their evidence.
        settings: the switches.
        context: the pipeline's.
        descriptions: show column descriptions.
    """

    question: Question
    schema: Schema
    prompt: PromptSettings
    grounded: tuple[GroundedDemonstration, ...]
    settings: DacCorrectionSettings
    context: Context[Any]
    descriptions: bool

    async def correct(self, sql: str | None) -> str | None:
        """Section 3.4: feed an execution error back first, then missing entities, then another skeleton."""
        settings, path = self.settings, self.context.path
        if settings.execution:
            failing, error = sql, await execution_feedback(sql, self.context.runner)
            # a SQL is only ever replaced by one that executes
            sql = await self.until_satisfied(lambda sql: error if sql == failing else None, sql)
            path.sql(f"{CANDIDATE}execution", sql)

        linked, parsed = await asyncio.gather(self.link(sql), self.parse())

        if settings.entities:
            sql = await self.until_satisfied(
                lambda sql: missing_entities(sql, linked.entities, self.schema), sql, linked.tokens
            )
            path.sql(f"{CANDIDATE}entities", sql)
        if settings.skeleton:
            sql = await self.until_satisfied(
                lambda sql: other_skeleton(
                    sql, parsed.skeleton, self.schema.dialect, never_longer=settings.never_longer
                ),
                sql,
                linked.tokens,
            )
            path.sql(f"{CANDIDATE}skeleton", sql)
        return sql

    async def until_satisfied(
        self, check: Check, sql: str | None, tokens: tuple[AlignedToken, ...] = ()
    ) -> str | None:
        """Correct by one kind of feedback until it is satisfied, brings no change, or its rounds are used up."""
        for round in range(self.settings.rounds):
            feedback = check(sql)
            if feedback is None:
                break
            revision = await dac_correction(
                self.question,
                self.schema,
                self.prompt,
                tokens,
                sql,
                feedback,
                round,
                self.settings.later_temperature if round else None,
                self.descriptions,
                self.context.runner,
                self.context.backbone,
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
        alignment = await entity_linking(
            self.question,
            self.schema,
            self.prompt,
            self.grounded[: self.settings.shots],
            sql,
            self.descriptions,
            self.context.backbone,
        )
        self._note("entity linking", alignment.note)
        return alignment

    async def parse(self) -> ParsedSkeleton:
        """Section 3.3: the skeleton that the question calls for."""
        if not self.settings.skeleton:
            return ParsedSkeleton(None)
        if self.settings.oracle_skeleton:
            return self._given(self.context.oracle.skeleton if self.context.oracle else None)
        parsed = await skeleton_parsing(
            self.question,
            self.schema.dialect,
            self.grounded[: self.settings.shots],
            self.settings.skeleton_evidence,
            self.context.backbone,
        )
        self._note("skeleton parsing", parsed.note)
        return parsed

    def _note(self, part: str, note: str) -> None:
        if note:
            self.context.path.notes.append(f"{part}: {note}")

    def _given(self, part: T | None) -> T:
        if part is None:
            raise ConfigurationError(
                f"dac.oracle is {self.settings.oracle}, but nothing from the gold SQL is at hand: an oracle is for an "
                'analysis by `crosscheck evaluate` only. Do without: "--set pipeline.dac.oracle=none".'
            )
        return part

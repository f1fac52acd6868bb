"""DAC: initial SQL, entity linking, skeleton parsing, correction by what they find missing (arXiv 2408.08779)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from flows.pipelines.pipeline import Context, pipeline, results_or_raise
from tasks.core.errors import ConfigurationError
from tasks.core.records import (
    DAC_STEP,
    AlignedToken,
    Alignment,
    ColumnName,
    Entities,
    Feedback,
    Link,
    ParsedSkeleton,
    Question,
    RevisionRequest,
    Sample,
)
from tasks.database.schema_text import SchemaView
from tasks.retrieval.alignment import GroundedDemonstration
from tasks.settings.pipeline import DacSettings
from tasks.settings.stages import DacCorrectionSettings
from tasks.sql.elements import Elements, resolved_elements
from tasks.stages.dac import (
    consistent_sql,
    dac_correction,
    execution_feedback,
    initial_sql,
    missing_entities,
    other_skeleton,
    skeleton_parsing,
)
from tasks.stages.dac_entities import entity_linking, question_values, with_mentioned_values
from tasks.stages.links import join_keys

T = TypeVar("T")
Check = Callable[[str | None], Feedback | None]
"""Finds what is wrong with a SQL, by one kind of feedback; None when nothing is."""


@pipeline(DacSettings, name="dac")
async def dac(question: Question, context: Context[DacSettings]) -> str | None:
    """Write a few-shot SQL, then correct it by decomposition."""
    settings, record = context.settings, context.record
    full = await context.view_for(question, descriptions=settings.descriptions)
    decomposition = await decompose(question, full, settings.dac, context)

    first = await decomposition.generate(decomposition.view)
    return await decomposition.correct(record.sql("initial_sql", first))


async def decompose(
    question: Question, full: SchemaView, settings: DacCorrectionSettings, context: Context[Any]
) -> "Decomposition":
    """Prepare DAC's correction of a question, for any pipeline.

    The values that the question mentions stand before the sample rows. A prompt that shows retrieved values (SEA-SQL)
    has such values already, and keeps them.
    """
    view = full
    if settings.values and full.prompt.values == "rows":
        values = await question_values(question, full.schema, settings.values, context.runner)
        view = full.with_samples(with_mentioned_values(full.schema, values, settings.values), settings.values)
    return Decomposition(question, view, settings, context)


def pruned_to(view: SchemaView, sql: str | None, entities: Entities) -> SchemaView:
    """Return the view of the linked entities and of what a SQL uses, with all keys of their tables.

    A table of which no column is linked or used stays whole: the question may mean any of them. Of the others, the
    primary keys are added, and the foreign keys that join them. `sql` is None where there is none.
    """
    schema = view.schema
    used = resolved_elements(sql, schema) if sql else Elements((), ())
    columns = {*entities.columns, *used.columns}
    tables = {*entities.tables, *used.tables}
    whole_tables = tables - {column.table for column in columns}
    for table in schema.tables:
        if table.name in tables:
            is_whole = table.name in whole_tables
            added = {column.name for column in table.columns} if is_whole else set(table.primary_key)
            columns |= {ColumnName(table.name, name) for name in added}
    columns |= join_keys(schema, tables)
    return view.reduced_to(Link(columns=tuple(name for name in schema.column_names if name in columns)))


@dataclass(frozen=True)
class Decomposition:
    """DAC's correction of one question."""

    question: Question  # the question and its evidence
    view: SchemaView  # the view of the full schema, its samples being the values to show
    settings: DacCorrectionSettings  # the switches
    context: Context[Any]  # the pipeline's

    async def generate(self, view: SchemaView) -> str | None:
        """Section 3.1: write a SQL; of several, the one whose result most of them return."""
        demonstrations = self.context.grounded_demonstrations(
            self.context.settings.demonstrations.k, evidence=True
        )
        # the first sample has the backbone's own temperature
        samples = [
            Sample(index, self.settings.warm if index else None) for index in range(self.settings.consistency)
        ]
        backbone = self.context.backbone
        writing = (initial_sql(self.question, view, demonstrations, sample, backbone) for sample in samples)
        answers = results_or_raise(await asyncio.gather(*writing, return_exceptions=True))
        if len(answers) == 1:
            return answers[0].sql
        sqls = tuple(answer.sql for answer in answers if answer.sql)
        return await consistent_sql(sqls, self.context.runner)

    async def correct(self, sql: str | None) -> str | None:
        """Section 3.4: feed an execution error back first, then missing entities, then another skeleton."""
        settings = self.settings
        record = self.context.record
        schema = self.view.schema
        if settings.execution:
            failing = sql
            error = await execution_feedback(sql, self.context.runner)
            # a SQL is only ever replaced by one that executes
            sql = await self.until_satisfied(lambda sql: error if sql == failing else None, sql)
            record.sql(f"{DAC_STEP}execution", sql)

        linked, parsed = results_or_raise(
            await asyncio.gather(self.link(sql), self.parse(), return_exceptions=True)
        )

        if settings.second_generation and linked.entities:
            sql = record.sql(f"{DAC_STEP}second_generation", await self.generate_again(sql, linked.entities))
        if settings.entities:
            sql = await self.until_satisfied(
                lambda sql: missing_entities(sql, linked.entities, schema, joins_count=settings.joins_count),
                sql,
                linked.tokens,
            )
            record.sql(f"{DAC_STEP}entities", sql)
        if settings.skeleton:
            sql = await self.until_satisfied(
                lambda sql: other_skeleton(
                    sql, parsed.skeleton, schema.dialect, never_longer=settings.never_longer
                ),
                sql,
                linked.tokens,
            )
            record.sql(f"{DAC_STEP}skeleton", sql)
        return sql

    async def until_satisfied(
        self, check: Check, sql: str | None, tokens: tuple[AlignedToken, ...] = ()
    ) -> str | None:
        """Correct by one kind of feedback until it is satisfied, brings no change, or its rounds are used up.

        `check` returns the feedback on a SQL, None when it is satisfied. Rounds after the first use the temperature
        `warm`. Strict feedback also ends when as much is missing as in the round before, as in the released code.
        """
        settings = self.settings
        missing = None
        for round in range(settings.rounds):
            feedback = check(sql)
            if feedback is None:
                break
            missing_before = missing
            missing = len(feedback.missing.tables) + len(feedback.missing.columns)
            if settings.strict and missing_before is not None and missing >= missing_before:
                break
            temperature = settings.warm if round else None
            request = RevisionRequest(sql, feedback, tokens, round, temperature, settings.strict)
            demonstrations = self.context.grounded_demonstrations(settings.correction_shots, evidence=True)
            runner, backbone = self.context.runner, self.context.backbone
            revision = await dac_correction(
                self.question, self.view, request, demonstrations, runner, backbone
            )
            sql = revision.sql
            if revision.outcome == "unchanged":
                break
        return sql

    async def generate_again(self, sql: str | None, entities: Entities) -> str | None:
        """Write a SQL on the schema of the linked entities, and keep the one before where it fails to execute."""
        new_sql = await self.generate(pruned_to(self.view, sql, entities))
        failed = new_sql is None or await execution_feedback(new_sql, self.context.runner) is not None
        return sql if failed else new_sql

    async def link(self, sql: str | None) -> Alignment:
        """Section 3.2: what the question mentions."""
        if not self.settings.entities:
            return Alignment()
        if self.settings.oracle_entities:
            oracle = self.context.oracle
            return Alignment(entities=self._of_gold(oracle.entities if oracle else None))
        alignment = await entity_linking(
            self._asked,
            self.view,
            self._demonstrations(self.settings.shots, aligned=True),
            sql,
            self.settings.names,
            self.context.backbone,
        )
        self._note("entity linking", alignment.note)
        return alignment

    async def parse(self) -> ParsedSkeleton:
        """Section 3.3: the skeleton of the SQL, from the question without a schema."""
        if not self.settings.skeleton:
            return ParsedSkeleton(None)
        if self.settings.oracle_skeleton:
            return self._of_gold(self.context.oracle.skeleton if self.context.oracle else None)
        parsed = await skeleton_parsing(
            self._asked, self.view.dialect, self._demonstrations(self.settings.shots), self.context.backbone
        )
        self._note("skeleton parsing", parsed.note)
        return parsed

    @property
    def _asked(self) -> Question:
        """The question as the sub-tasks take it: without its evidence where the settings say so."""
        return self.question if self.settings.with_evidence else replace(self.question, evidence="")

    def _demonstrations(self, count: int, *, aligned: bool = False) -> tuple[GroundedDemonstration, ...]:
        return self.context.grounded_demonstrations(
            count, aligned=aligned, evidence=self.settings.with_evidence
        )

    def _note(self, part: str, note: str) -> None:
        if note:
            self.context.record.note(f"{part}: {note}")

    def _of_gold(self, part: T | None) -> T:
        """Return a part of the oracle; it is an error if the question has none."""
        if part is None:
            raise ConfigurationError(
                f"dac.oracle is {self.settings.oracle}, but there is nothing from the gold SQL: an oracle is for an "
                'analysis by `crosscheck evaluate` only. Turn it off: "--set pipeline.dac.oracle=none".'
            )
        return part

"""RSL-SQL: bidirectional schema linking, augmentation, binary selection, self-correction (arXiv 2411.00073)."""

import asyncio
from dataclasses import dataclass, replace

from flows.pipelines.dac import decompose
from flows.pipelines.pipeline import Context, pipeline, results_or_raise
from tasks.core.errors import ConfigurationError
from tasks.core.records import Augmentation, CorrectionCase, FewShotQuestion, Link, Question, SqlPair
from tasks.database.schema_text import SchemaView
from tasks.settings.pipeline import LinkedSettings, RslSqlSettings
from tasks.stages.links import hinted_link, merge, unite, with_join_keys
from tasks.stages.rsl_sql import (
    augmentation_conditions,
    augmentation_elements,
    augmentation_keywords,
    augmentation_together,
    augmented_sql,
    backward_link,
    binary_selection,
    forward_link,
    preliminary_sql,
    self_correction,
)

RslSql = Context[RslSqlSettings]


@pipeline(RslSqlSettings, name="rsl-sql")
async def rsl_sql(question: Question, context: RslSql) -> str | None:
    """Take one question through the four steps of RSL-SQL, and then through DAC's correction if that is on."""
    settings, record = context.settings, context.record
    few_shot = context.with_demonstrations(question)
    # column descriptions stand in the prompts of linking, of the later steps, of both or of none
    in_linking, in_augmentation = settings.linking.descriptions, settings.augmentation.descriptions
    described = await context.view_for(question, descriptions=in_linking or in_augmentation)
    full = replace(described, descriptions=in_augmentation)

    sql1, link = await link_both_ways(question, replace(full, descriptions=in_linking), context)
    record.sql("preliminary_sql", sql1)

    view = full.reduced_to(link)
    augmentation = await augment(question, view, context)
    sql2 = (await augmented_sql(few_shot, view, augmentation, context.backbone)).sql
    record.sql("augmented_sql", sql2)

    prompt = QuestionPrompt(question, view, augmentation)
    if settings.correction.rounds and settings.correction.before_selection:
        sql1 = await correct("self-correction of SQL1", sql1, prompt, context)
        sql2 = await correct("self-correction of SQL2", sql2, prompt, context)

    final = record.sql("binary_selection", await select(SqlPair(sql1, sql2), question, view, context))
    if settings.correction.rounds and not settings.correction.before_selection:
        final = record.sql("self_correction", await correct("self-correction", final, prompt, context))
    if settings.dac is not None:
        decomposition = await decompose(question, full, settings.dac, context)
        final = await decomposition.correct(final)  # it records its own steps
    return final


async def link_both_ways(
    question: Question, view: SchemaView, context: Context[LinkedSettings]
) -> tuple[str | None, Link]:
    """Step 1: forward link, preliminary SQL, backward link; their union over all iterations."""
    settings = context.settings.linking
    schema = view.schema
    record = context.record
    few_shot = context.with_demonstrations(question)
    max_columns = settings.forward.max_columns_per_table
    hints = hinted_link(question, schema, settings.forward.hint_source)
    forward = backward = Link()
    sql = None
    for iteration in range(settings.iterations):
        earlier = unite(schema, forward, backward) if iteration else None
        named = await forward_link(question, view, max_columns, earlier, context.backbone)
        with_hints = unite(schema, named, hints)
        shown_link = {"named": named, "with_hints": with_hints, "none": None}[settings.shown]
        answer = await preliminary_sql(few_shot, view, shown_link, context.backbone)
        sql = answer.sql or sql
        forward = unite(schema, forward, with_hints)
        backward = unite(schema, backward, await backward_link(schema, answer.sql, settings.backward))
    record.link("forward", merge(schema, forward))
    record.link("backward", backward)
    both = record.link("both", merge(schema, forward, backward))
    links = {"both": both, "forward": forward, "backward": backward, "none": Link()}
    if settings.directions == "gold":
        links["gold"] = record.link("gold", gold_link(context))
    link = links[settings.directions]
    return sql, with_join_keys(schema, link) if settings.keep_keys else link


def gold_link(context: Context[LinkedSettings]) -> Link:
    """Return the gold's tables and columns, for an analysis."""
    if context.oracle is None or context.oracle.link is None:
        raise ConfigurationError(
            "pipeline.linking.directions is gold, but there is nothing from the gold SQL: it is for an analysis by "
            '`crosscheck evaluate` only. Choose another: "--set pipeline.linking.directions=both".'
        )
    return context.oracle.link


async def augment(question: Question, view: SchemaView, context: RslSql) -> Augmentation:
    """Step 2: elements, keywords and conditions, in one call or in three at the same time; None for what is off."""
    settings = context.settings.augmentation
    backbone = context.backbone
    max_columns = context.settings.linking.forward.max_columns_per_table
    if settings.together and settings.parts:
        return await augmentation_together(question, view, settings.parts, max_columns, backbone)
    gathered = await asyncio.gather(
        augmentation_elements(question, view, max_columns, backbone) if settings.elements else _off(),
        augmentation_keywords(question, view, backbone) if settings.keywords else _off(),
        augmentation_conditions(question, backbone) if settings.conditions else _off(),
        return_exceptions=True,
    )
    return Augmentation(*results_or_raise(gathered))


async def select(candidates: SqlPair, question: Question, view: SchemaView, context: RslSql) -> str | None:
    """Step 3: the better of SQL1 and SQL2 by what they return; SQL2 where selection is off."""
    settings = context.settings.selection
    if not settings.enabled:
        return candidates.sql2
    few_shot = context.with_demonstrations(question) if settings.demonstrations else FewShotQuestion(question)
    selection = await binary_selection(few_shot, view, candidates, settings, context.runner, context.backbone)
    if selection.choice == "new":
        context.record.note("selection wrote a third query")
    return selection.sql


@dataclass(frozen=True)
class QuestionPrompt:
    """What the prompt of a correction has of a question besides its SQL."""

    question: Question
    view: SchemaView
    augmentation: Augmentation


async def correct(name: str, sql: str | None, prompt: QuestionPrompt, context: RslSql) -> str | None:
    """Step 4: correct a SQL that fails or returns nothing; note if it still does."""
    settings = context.settings.correction
    case = CorrectionCase(
        context.with_demonstrations(prompt.question),
        sql,
        # Of the augmentation, a correction shows the keywords and the conditions.
        replace(prompt.augmentation, elements=None) if settings.augmentation else Augmentation(),
    )
    correction = await self_correction(case, prompt.view, settings.turns, context.runner, context.backbone)
    if correction.after != "ok":
        context.record.note(f"{name} ended with status: {correction.after}")
    return correction.sql


async def _off() -> None:
    """Stand for a part of the augmentation that is switched off."""

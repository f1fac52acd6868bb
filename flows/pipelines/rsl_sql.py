"""RSL-SQL: bidirectional schema linking, augmentation, binary selection, self-correction (arXiv 2411.00073)."""

import asyncio

from flows.pipelines.context import Context
from flows.pipelines.dac import correct_by_decomposition
from flows.pipelines.pipeline import pipeline
from flows.pipelines.values import with_retrieved_values
from tasks.database.schema import Schema
from tasks.records import Augmentation, Link, Question
from tasks.settings.pipeline import RslSqlSettings
from tasks.stages.links import merge, unite, with_join_keys
from tasks.stages.rsl_sql.augmentation import (
    augmentation_conditions,
    augmentation_elements,
    augmentation_keywords,
)
from tasks.stages.rsl_sql.augmented_sql import augmented_sql
from tasks.stages.rsl_sql.backward_link import backward_link
from tasks.stages.rsl_sql.binary_selection import binary_selection
from tasks.stages.rsl_sql.forward_link import forward_link
from tasks.stages.rsl_sql.preliminary_sql import preliminary_sql
from tasks.stages.rsl_sql.self_correction import self_correction

RslSql = Context[RslSqlSettings]


@pipeline(RslSqlSettings, name="rsl-sql")
async def rsl_sql(question: Question, context: RslSql) -> str | None:
    """Take one question through the four steps of RSL-SQL, and then through DAC's correction if that is on."""
    context = await with_retrieved_values(question, context)
    path, settings = context.path, context.settings

    sql1, link = await link_both_ways(question, context)
    path.sql("preliminary_sql", sql1)

    reduced = context.schema.reduced_to(link)
    augmentation = await augment(question, reduced, context)
    sql2 = await write_augmented(question, reduced, augmentation, context)
    path.sql("augmented_sql", sql2)

    correcting = settings.correction.rounds > 0
    if correcting and settings.correction.before_selection:
        sql1 = await correct("SQL1", question, reduced, sql1, context)
        sql2 = await correct("SQL2", question, reduced, sql2, context)

    final = path.sql("binary_selection", await select(question, reduced, sql1, sql2, context))
    if correcting and not settings.correction.before_selection:
        final = path.sql("self_correction", await correct("the final SQL", question, reduced, final, context))
    if settings.dac is None:
        return final
    return await correct_by_decomposition(
        question, final, settings.dac, context, descriptions=settings.augmentation.descriptions
    )


async def link_both_ways(question: Question, context: RslSql) -> tuple[str | None, Link]:
    """Step 1: forward link, preliminary SQL, backward link; their union over all iterations."""
    settings, schema, path = context.settings.linking, context.schema, context.path
    forward = backward = Link()
    sql = None
    for iteration in range(settings.iterations):
        earlier = unite(schema, forward, backward) if iteration else None
        found = await forward_link(
            question, schema, context.settings.prompt, settings.forward, earlier, context.backbone
        )
        answer = await preliminary_sql(
            question, schema, context.settings.prompt, context.examples, found, False, context.backbone
        )
        sql = answer.sql or sql
        forward = unite(schema, forward, found)
        backward = unite(schema, backward, await backward_link(schema, answer.sql, settings.backward))
    path.link("forward", merge(schema, forward))
    path.link("backward", backward)
    both = path.link("both", merge(schema, forward, backward))
    link = {"both": both, "forward": forward, "backward": backward, "none": Link()}[settings.directions]
    return sql, with_join_keys(schema, link) if settings.keep_keys else link


async def augment(question: Question, reduced: Schema, context: RslSql) -> Augmentation:
    """Step 2a: elements, keywords and conditions, asked for together because none needs another."""
    on, prompt, backbone = context.settings.augmentation, context.settings.prompt, context.backbone
    most = context.settings.linking.forward.max_columns_per_table
    elements = asyncio.create_task(
        augmentation_elements(question, reduced, prompt, on.descriptions, most, backbone)
        if on.elements
        else _off()
    )
    keywords = asyncio.create_task(
        augmentation_keywords(question, reduced, prompt, on.descriptions, backbone) if on.keywords else _off()
    )
    conditions = asyncio.create_task(augmentation_conditions(question, backbone) if on.conditions else _off())
    # All three are waited for, also when one fails: what the others answer is paid for and belongs in the books.
    await asyncio.gather(elements, keywords, conditions, return_exceptions=True)
    return Augmentation(elements.result(), keywords.result(), conditions.result())


async def write_augmented(
    question: Question, reduced: Schema, augmentation: Augmentation, context: RslSql
) -> str | None:
    """Step 2b: SQL2 from the reduced schema and the augmentation."""
    settings = context.settings
    answer = await augmented_sql(
        question,
        reduced,
        settings.prompt,
        context.examples,
        augmentation,
        settings.augmentation.descriptions,
        context.backbone,
    )
    return answer.sql


async def select(
    question: Question, reduced: Schema, sql1: str | None, sql2: str | None, context: RslSql
) -> str | None:
    """Step 3: the better of SQL1 and SQL2 by what they return."""
    settings = context.settings
    if not settings.selection.enabled:
        return sql2
    selection = await binary_selection(
        question,
        reduced,
        settings.prompt,
        context.examples,
        sql1,
        sql2,
        settings.selection,
        settings.augmentation.descriptions,
        context.runner,
        context.backbone,
    )
    if selection.choice == "new":
        context.path.notes.append("selection wrote a third query")
    return selection.sql


async def correct(
    name: str, question: Question, reduced: Schema, sql: str | None, context: RslSql
) -> str | None:
    """Step 4: repair a SQL that fails or returns nothing; a note says when it could not be repaired."""
    settings = context.settings
    correction = await self_correction(
        question,
        reduced,
        settings.prompt,
        context.examples,
        sql,
        settings.correction.turns,
        settings.augmentation.descriptions,
        context.runner,
        context.backbone,
    )
    if correction.after != "ok":
        context.path.notes.append(f"{name} still fares: {correction.after}")
    return correction.sql


async def _off() -> None:
    return None

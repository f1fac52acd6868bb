"""Adaptive bias elimination: a small fine-tuned model judges the preliminary SQL (SEA-SQL, section 3)."""

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message, Reply, Request
from tasks.backbone.replies.reading import read_sql
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import Schema
from tasks.errors import BackboneError
from tasks.records import Elimination, Question
from tasks.settings.pipeline import BiasEliminationSettings, PromptSettings
from tasks.sql.normalise import normalise_sql
from tasks.stage import stage
from tasks.stages.sea_sql.elimination_prompt import TEMPLATE, elimination_prompt


@stage(prompts=(TEMPLATE,))
async def bias_elimination(
    question: Question,
    schema: Schema,
    prompt: PromptSettings,
    descriptions: bool,
    sql: str,
    settings: BiasEliminationSettings,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Elimination:
    """Let the eliminator repeat the preliminary SQL or write a better one.

    Args:
        question: the question and its evidence.
        schema: the full schema, its samples the values to show.
        prompt: how the schema is shown.
        descriptions: show column descriptions.
        sql: the preliminary SQL.
        settings: rows of its result in the prompt.
        runner: executes it, within the benchmark's time limit.
        backbone: the eliminator; it is asked greedily.

    Returns:
        The SQL that goes on. The preliminary one is kept, with a note, when the eliminator refuses the request (a
        prompt too long, say), is cut off, or writes no SQL.

    Raises:
        BackboneError: for a reason that may pass, such as a server that is down: the outcome is then not persisted.
    """
    execution = await runner.run(sql, rows=settings.rows_shown)
    text = elimination_prompt(
        question, schema, prompt, descriptions, settings.rows_shown, sql, execution
    ).text
    try:
        reply = await backbone.complete(Request((Message("user", text),), temperature=0.0))
    except BackboneError as error:
        if error.transient or error.fatal:
            raise
        elimination = Elimination(sql, "kept", f"the eliminator refused: {error}")
    else:
        elimination = read_elimination(reply, sql)
    if elimination.outcome == "kept":
        backbone.note(f"{elimination.note}; the preliminary SQL was kept")
    return elimination


def read_elimination(reply: Reply, sql: str) -> Elimination:
    """Return what the eliminator's reply does to a preliminary SQL."""
    if reply.truncated:
        return Elimination(sql, "kept", "the eliminator's reply was cut off")
    better = read_sql(reply.text.encode("utf-8", "replace").decode())
    if better is None:
        start = " ".join(reply.text[:80].split())
        return Elimination(sql, "kept", f'the eliminator wrote no SQL: "{start}"')
    if normalise_sql(better) == normalise_sql(sql):
        return Elimination(sql, "unchanged")
    return Elimination(better, "changed")

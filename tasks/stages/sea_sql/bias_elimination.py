"""Adaptive bias elimination: a small fine-tuned model judges the preliminary SQL (SEA-SQL, section 3)."""

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message, Reply, Request
from tasks.backbone.replies.reading import read_sql
from tasks.core.errors import BackboneError
from tasks.core.records import Elimination, Question
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema_view import SchemaView
from tasks.settings.stages import BiasEliminationSettings
from tasks.sql.parsing import normalise_sql
from tasks.stage_runs.stage import stage
from tasks.stages.sea_sql.elimination_prompt import TEMPLATE, elimination_prompt


@stage(version=2, prompts=(TEMPLATE,))
async def bias_elimination(
    question: Question,
    view: SchemaView,
    sql: str,
    settings: BiasEliminationSettings,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Elimination:
    """Let the eliminator, with greedy decoding, repeat the preliminary SQL or write a better one.

    Returns:
        The SQL that goes on. The preliminary one is kept, with a note, when the eliminator refuses the request (a
        prompt too long, say), is cut off, or writes no SQL.

    Raises:
        BackboneError: for a transient reason, such as a server that is down: the outcome is then not persisted.
    """
    execution = await runner.run(sql, rows=settings.rows_shown)
    text = elimination_prompt(question, view, sql, execution, settings.rows_shown).text
    try:
        reply = await backbone.complete(
            Request((Message("user", text),), temperature=0.0),
            lambda reply: read_elimination(reply, sql, view.dialect).outcome != "kept",
        )
    except BackboneError as error:
        if error.transient or error.fatal:
            raise
        elimination = Elimination(sql, "kept", f"the eliminator refused: {error}")
    else:
        elimination = read_elimination(reply, sql, view.dialect)
    if elimination.outcome == "kept":
        kept = f"{elimination.note}; the preliminary SQL was kept"
        backbone.note(kept)
        backbone.fall_back(kept)
    return elimination


def read_elimination(reply: Reply, sql: str, dialect: str) -> Elimination:
    """Return what the eliminator's reply changes about a preliminary SQL."""
    if reply.truncated:
        return Elimination(sql, "kept", "the eliminator's reply was cut off")
    better = read_sql(reply.text.encode("utf-8", "replace").decode())
    if better is None:
        start = " ".join(reply.text[:80].split())
        return Elimination(sql, "kept", f'the eliminator wrote no SQL: "{start}"')
    if normalise_sql(better, dialect) == normalise_sql(sql, dialect):
        return Elimination(sql, "unchanged")
    return Elimination(better, "changed")

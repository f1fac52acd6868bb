"""Multi-turn self-correction, SQL4 (RSL-SQL, section 3.4; spec 4)."""

import json

from tasks import prompts
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import Schema
from tasks.records import Correction, Demonstration, Execution, Question
from tasks.settings.pipeline import CorrectionTurns, PromptSettings
from tasks.stage import stage
from tasks.stages.ask_sql import ask_sql
from tasks.stages.show import Tried, outcome_of, show_result, show_schema


@stage(prompts=("self_correction",))
async def self_correction(
    question: Question,
    schema: Schema,
    prompt: PromptSettings,
    demonstrations: tuple[Demonstration, ...],
    sql: str | None,
    settings: CorrectionTurns,
    descriptions: bool,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Correction:
    """Ask again, in one conversation, while the SQL raises, times out or returns no row, and rounds remain.

    Args:
        question: the question and its evidence.
        schema: the schema reduced to the link.
        prompt: how the schema is shown.
        demonstrations: training questions with their SQL, most similar first.
        sql: the SQL that comes in; None always calls for a correction.
        settings: rounds, what calls for one, and whether the first turn shows the SQL ("informed") or, as in the
            authors' first code, neither it nor its error ("blind").
        descriptions: show column descriptions.
        runner: executes each SQL within the benchmark's time limit.
        backbone: who is asked.

    Returns:
        The last round's SQL, kept even if it still fails, and how it fares. A round whose reply cannot be read
        keeps the SQL of the round before. The conversation keeps what each round's reply came to.
    """
    result = await runner.run(sql, rows=0) if sql else None
    before = outcome_of(result)
    conversation: tuple[Message, ...] = ()
    rounds = 0
    while rounds < settings.rounds and _calls_for_correction(result, settings):
        current = Tried(sql or "", show_result(result, rows=0))
        if not conversation:
            informed = settings.first_turn == "informed" and sql is not None
            conversation = prompts.messages(
                "self_correction",
                question=question,
                dialect=schema.dialect_name,
                demonstrations=demonstrations,
                parts=show_schema(schema, prompt, descriptions=descriptions),
                current=current if informed else None,
            )
        else:
            turn = prompts.render("self_correction", "again", current=current, dialect=schema.dialect_name)
            conversation = (*conversation, Message("user", turn))
        answer = await ask_sql(backbone, conversation)
        rounds += 1
        if answer.sql is None:
            backbone.note(f"round {rounds}: {answer.note}; the SQL before it was kept")
        else:
            sql, result = answer.sql, await runner.run(answer.sql, rows=0)
        reply = json.dumps({"sql": answer.sql or ""}, ensure_ascii=False)
        conversation = (*conversation, Message("assistant", reply))
    return Correction(sql, rounds, before, outcome_of(result))


def _calls_for_correction(result: Execution | None, settings: CorrectionTurns) -> bool:
    if result is None or not result.ok:
        return True
    return settings.when == "error_or_empty" and result.empty

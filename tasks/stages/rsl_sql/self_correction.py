"""Multi-turn self-correction, SQL4 (RSL-SQL, section 3.4)."""

import json

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message
from tasks.core.records import Correction, CorrectionCase, Execution
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema_view import SchemaView
from tasks.settings.stages import CorrectionTurns
from tasks.sql.parsing import same_query
from tasks.stage_runs import prompts
from tasks.stage_runs.stage import stage
from tasks.stages.replies import SqlReply, sql_answer
from tasks.stages.schema_prompt import schema_messages
from tasks.stages.shown_results import ExecutedSql, outcome_of, show_result


@stage(version=3, prompts=("self_correction",))
async def self_correction(
    case: CorrectionCase,
    view: SchemaView,
    settings: CorrectionTurns,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Correction:
    """Ask again, in one conversation, while the SQL raises, times out or returns no row, and rounds remain.

    No SQL at all always needs a correction. A reply that repeats a query of the conversation ends it: the model
    insists, for example because an empty result is right. The first turn shows the SQL ("informed") or, as in the
    authors' first code, neither it nor its error ("blind").

    Returns:
        The last round's SQL, kept even if it still fails, and its status. A round whose reply cannot be read
        keeps the SQL of the round before. The conversation keeps the SQL that was read from each reply.
    """
    few_shot, sql = case.few_shot, case.sql
    result = await runner.run(sql, rows=0) if sql else None
    before = outcome_of(result)
    conversation: tuple[Message, ...] = ()
    rounds = 0
    informed = settings.first_turn == "informed" and sql is not None
    shown = [sql] if sql and informed else []
    repeated = False
    while rounds < settings.rounds and not repeated and _needs_correction(result, settings):
        current = ExecutedSql(sql or "", show_result(result, rows=0))
        if not conversation:
            conversation = schema_messages(
                "self_correction",
                view,
                question=few_shot.question,
                demonstrations=few_shot.demonstrations,
                keywords=case.augmentation.keywords or (),
                conditions=case.augmentation.conditions or (),
                empty_counts=settings.when == "error_or_empty",
                current=current if informed else None,
            )
        else:
            turn = prompts.render(
                "self_correction",
                "again",
                current=current,
                dialect=view.dialect_name,
                empty_counts=settings.when == "error_or_empty",
            )
            conversation = (*conversation, Message("user", turn))
        reply = await backbone.ask_json(conversation, SqlReply)
        answer = sql_answer(reply, backbone, otherwise="the SQL before it was kept")
        rounds += 1
        if answer.sql is None:
            backbone.note(f"round {rounds}: {answer.note}; the SQL before it was kept")
        else:
            repeated = any(same_query(answer.sql, earlier, view.dialect) for earlier in shown)
            shown.append(answer.sql)
            sql, result = answer.sql, await runner.run(answer.sql, rows=0)
        previous = json.dumps({"sql": answer.sql or ""}, ensure_ascii=False)
        conversation = (*conversation, Message("assistant", previous))
    return Correction(sql, rounds, before, outcome_of(result))


def _needs_correction(result: Execution | None, settings: CorrectionTurns) -> bool:
    if result is None or not result.ok:
        return True
    return settings.when == "error_or_empty" and result.empty

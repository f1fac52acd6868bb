"""Dynamic execution adjustment: reflect and correct until the SQL executes (SEA-SQL, section 4)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message
from tasks.core.records import Correction, Question
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema_view import SchemaView
from tasks.settings.stages import ExecutionAdjustmentSettings
from tasks.sql.parsing import normalise_sql
from tasks.stage_runs.stage import stage
from tasks.stages.replies import SqlReply, sql_answer
from tasks.stages.schema_prompt import schema_messages
from tasks.stages.shown_results import outcome_of, show_result

LONGEST_REASON = 600
"""Characters of a reason that are remembered: it is shown again in every later round."""
NO_REASON = "No reason was given."
NO_QUERY = "(no query)"


@dataclass(frozen=True, slots=True)
class Mistake:
    """A SQL that failed, as the prompts show it."""

    number: int  # its place in the memory, from 1
    sql: str  # the SQL, or `NO_QUERY` where a reply held none
    result: str  # the error, or the time-out
    reason: str = ""  # why it failed, as the backbone sees it; "" before the first request
    times: int = 1  # how often the backbone gave this SQL


@stage(version=2, prompts=("execution_reflection", "execution_correction"))
async def execution_adjustment(
    question: Question,
    view: SchemaView,
    sql: str | None,
    settings: ExecutionAdjustmentSettings,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Correction:
    """While the SQL fails to execute, ask why, and then for another one; both see every SQL that has failed so far.

    A result without rows is no failure; no SQL at all is one. A SQL that comes a second time is not shown a second
    time: its place in the memory says how often it was given, and it needs no second reflection.

    Returns:
        The last SQL and its status: neither "ok" nor "empty" means that it still fails. A round whose reply cannot
        be read keeps the SQL of the round before.
    """
    result = await runner.run(sql, rows=0) if sql else None
    before = outcome_of(result)
    memory: tuple[Mistake, ...] = ()
    rounds, is_new = 0, True
    while rounds < settings.rounds and (result is None or not result.ok):
        if is_new:
            memory = remember(memory, sql or NO_QUERY, show_result(result, rows=0), view.dialect)
        if not memory[-1].reason:
            reason = await reflect(question, view, memory, backbone)
            memory = (*memory[:-1], replace(memory[-1], reason=reason))
        corrected = await correct(question, view, memory, rounds, backbone)
        rounds, is_new = rounds + 1, corrected is not None
        if corrected is None:
            backbone.note(f"round {rounds}: the SQL before it was kept")
        else:
            sql, result = corrected, await runner.run(corrected, rows=0)
    return Correction(sql, rounds, before, outcome_of(result))


async def reflect(
    question: Question, view: SchemaView, memory: Sequence[Mistake], backbone: MeteredBackbone
) -> str:
    """Ask why the last SQL fails; a line of text, never empty."""
    text = await backbone.ask_text(_messages("execution_reflection", question, view, memory))
    reason = " ".join(text.encode("utf-8", "replace").decode().split())
    if not reason:
        backbone.count_unusable("no reason was given for a failure")
        return NO_REASON
    return reason if len(reason) <= LONGEST_REASON else f"{reason[:LONGEST_REASON]}..."


async def correct(
    question: Question, view: SchemaView, memory: Sequence[Mistake], round: int, backbone: MeteredBackbone
) -> str | None:
    """Ask for another SQL; None where no reply held one.

    Each round is a sample of its own: after an unreadable reply the prompt is the same, its answer need not be.
    """
    reply = await backbone.ask_json(
        _messages("execution_correction", question, view, memory), SqlReply, sample=round
    )
    return sql_answer(reply, backbone, otherwise="the SQL before it was kept").sql


def _messages(
    template: str, question: Question, view: SchemaView, memory: Sequence[Mistake]
) -> tuple[Message, ...]:
    return schema_messages(template, view, question=question, mistakes=memory)


def remember(memory: Sequence[Mistake], sql: str, result: str, dialect: str) -> tuple[Mistake, ...]:
    """Return the memory with a failed SQL at its end; one that is in it already moves there and counts once more."""
    written = normalise_sql(sql, dialect)
    known = next((one for one in memory if normalise_sql(one.sql, dialect) == written), None)
    others = [one for one in memory if one is not known]
    last = replace(known, times=known.times + 1) if known else Mistake(0, sql, result)
    return tuple(replace(one, number=number) for number, one in enumerate((*others, last), start=1))

"""A turn of an agent: one reply of the model, and the tool calls in it."""

from collections.abc import Sequence
from itertools import chain

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message, Reply, Request
from tasks.backbone.replies.sql_text import read_sql
from tasks.core.trajectory import ToolCall, Turn
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.stage_runs.stage import stage
from tasks.stages.agent.calling import execute, with_ids
from tasks.stages.agent.conversation import Conversation
from tasks.stages.agent.modes import MODES, Mode
from tasks.stages.agent.toolbox import TEMPLATE, Toolbox


@stage(prompts=(TEMPLATE,))
async def turn(
    conversation: Conversation,
    notice: str,
    allowed: int,
    box: Toolbox,
    runner: DatabaseRunner,
    backbone: MeteredBackbone,
) -> Turn:
    """Ask the model once, and execute the tools that it calls.

    A reply without tool calls submits the query that it holds, if that does not fail. Any other one is answered with a
    reminder.

    Args:
        conversation: everything before.
        notice: what the model is told about limits that are near; "" for nothing.
        allowed: how many tool calls may be executed.
        box: what the tools read, and how the model calls them.
        runner: executes SQL on the question's database.
        backbone: the model.
    """
    mode = MODES[box.mode]
    reply = await backbone.complete(
        request_of(conversation, notice, mode, box.view.dialect_name),
        lambda reply: not conversation.turns or _acts(mode, reply),
    )
    text, written = mode.read(reply)
    used = {call.id for earlier in conversation.turns for call in earlier.calls}
    calls = await execute(with_ids(written, used, len(conversation.turns) + 1), allowed, box, runner)
    for call in calls:
        if call.error:
            backbone.note(f"{call.name[:40]}: {call.error.replace('_', ' ')}")
    if calls:
        submission = calls[-1].sql if _submits(calls[-1]) else None
        return Turn(text, calls, submission or conversation.best_sql(calls), submission is not None)
    written_sql = read_sql(text)
    if written_sql and (await runner.run(written_sql, rows=0)).ok:
        backbone.note("the query was submitted as text, without a call of submit")
        return Turn(text, (), written_sql, submitted=True)
    return Turn(text, (), conversation.answer or written_sql)


def request_of(conversation: Conversation, notice: str, mode: Mode, dialect: str) -> Request:
    """Return the request of the next turn; all messages before the last turn are known from the request before."""
    *before, last = (conversation.opening, *map(mode.messages, conversation.turns))
    messages: Sequence[Message] = (*chain(*before), *last)
    known = len(messages) - len(last) if conversation.turns else 0
    if notice:
        messages = mode.noticed(messages, notice)
    return Request(tuple(messages), tools=mode.tools(dialect), known=known)


def _acts(mode: Mode, reply: Reply) -> bool:
    """Return whether a reply holds a tool call or a query: without any, the model does not know how to act."""
    text, calls = mode.read(reply)
    return bool(calls or read_sql(text))


def _submits(call: ToolCall) -> bool:
    return call.name == "submit" and not call.error

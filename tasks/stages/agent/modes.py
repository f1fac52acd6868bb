"""The two ways in which a model calls tools: by its endpoint's protocol, or by fenced actions in its text."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from tasks.backbone.protocol import Message, Reply, Tool
from tasks.backbone.replies.json_text import fenced, without_thoughts
from tasks.core.trajectory import ToolCall, Turn
from tasks.settings.stages import ToolMode
from tasks.stage_runs import prompts
from tasks.stages.agent.toolbox import TEMPLATE, TOOLS, offered, parameters

EMPTY_REPLY = "(empty reply)"
"""What stands for an empty reply in later requests: some endpoints refuse an empty message."""
LONGEST_TEXT = 20_000
"""Characters of what a model writes beside its tool calls that are kept."""


class Mode(Protocol):
    """A way of calling tools."""

    def tools(self, dialect: str) -> tuple[Tool, ...]:
        """Return the tools that a request offers."""
        ...

    def read(self, reply: Reply) -> tuple[str, tuple[ToolCall, ...]]:
        """Return what a reply says, without its thoughts, and its tool calls."""
        ...

    def messages(self, turn: Turn) -> tuple[Message, ...]:
        """Return the messages of a turn for later requests."""
        ...

    def noticed(self, messages: Sequence[Message], notice: str) -> tuple[Message, ...]:
        """Return messages, whose last are of a turn or the opening's, with a notice behind them."""
        ...


class NativeMode:
    """Tool calls of the endpoint's protocol."""

    def tools(self, dialect: str) -> tuple[Tool, ...]:
        """Return all tools."""
        return offered(dialect)

    def read(self, reply: Reply) -> tuple[str, tuple[ToolCall, ...]]:
        """Return text and calls as they came."""
        return without_thoughts(reply.text).strip()[:LONGEST_TEXT], reply.calls

    def messages(self, turn: Turn) -> tuple[Message, ...]:
        """Return the reply with its calls and their results; behind a reply without any, a reminder."""
        if turn.calls:
            return (Message("assistant", turn.text, calls=turn.calls),)
        return Message("assistant", turn.text or EMPTY_REPLY), Message("user", _block("reminder"))

    def noticed(self, messages: Sequence[Message], notice: str) -> tuple[Message, ...]:
        """Append the notice to the last result, or to the last message of the user."""
        *before, last = messages
        if not last.calls:
            return (*before, _with(last, notice))
        *calls, call = last.calls
        return (*before, replace(last, calls=(*calls, replace(call, result=f"{call.result}\n\n{notice}"))))


class TextMode:
    """Fenced actions in the model's text: the name of the tool, and its arguments as JSON or its SQL as it is."""

    def tools(self, dialect: str) -> tuple[Tool, ...]:
        """Return none: the opening describes them."""
        return ()

    def read(self, reply: Reply) -> tuple[str, tuple[ToolCall, ...]]:
        """Return the text before the first action, and the actions; what the model writes behind them is left out."""
        said = without_thoughts(reply.text)
        actions = [
            ToolCall(name, _arguments(name, content)) for name, content in fenced(said) if name in TOOLS
        ]
        before = _ACTION.split(said, maxsplit=1)[0] if actions else said
        return before.strip()[:LONGEST_TEXT], tuple(actions)

    def messages(self, turn: Turn) -> tuple[Message, ...]:
        """Return the reply with its actions, and their results as a message of the user."""
        if not turn.calls:
            return Message("assistant", turn.text or EMPTY_REPLY), Message("user", _block("reminder_text"))
        actions = (f"```{call.name}\n{_written(call)}\n```" for call in turn.calls)
        said = "\n".join((*([turn.text] if turn.text else ()), *actions))
        results = _block("results", calls=turn.calls)
        return Message("assistant", said), Message("user", results)

    def noticed(self, messages: Sequence[Message], notice: str) -> tuple[Message, ...]:
        """Append the notice to the last message."""
        *before, last = messages
        return (*before, _with(last, notice))


MODES: dict[ToolMode, Mode] = {"native": NativeMode(), "text": TextMode()}
"""The modes by name."""

_ACTION = re.compile(rf"```[ \t]*(?:{'|'.join(TOOLS)})\b", re.IGNORECASE)


def _arguments(name: str, content: str) -> str:
    """Return the arguments of an action as JSON: an object as it is, else the text as the tool's only required one."""
    text = content.strip()
    required = parameters(name)["required"]
    if text.startswith("{") or not text or len(required) != 1:
        return text
    only = parameters(name)["properties"][required[0]]
    return text if only.get("type") != "string" else json.dumps({required[0]: text}, ensure_ascii=False)


def _written(call: ToolCall) -> str:
    return call.sql if call.sql and "```" not in call.sql else call.arguments


def _block(name: str, **variables: object) -> str:
    return prompts.render(TEMPLATE, name, **variables)


def _with(message: Message, notice: str) -> Message:
    return replace(message, content=f"{message.content.rstrip()}\n\n{notice}\n")

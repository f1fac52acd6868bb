"""The text under which a reply is stored, in the reply cache and in recordings."""

import json

from tasks.backbone.protocol import Reply
from tasks.core.trajectory import ToolCall

TOOL_CALLS = "tool_calls"


def stored_text(reply: Reply) -> str:
    """Return the text of a reply; of one that calls tools, a JSON object of its text and of id, name and arguments."""
    if not reply.calls:
        return reply.text
    calls = [[call.id, call.name, call.arguments] for call in reply.calls]
    return json.dumps({"text": reply.text, TOOL_CALLS: calls}, ensure_ascii=False)


def with_calls(reply: Reply) -> Reply:
    """Return a reply whose text is such an object with its text and its tool calls.

    Raises:
        ValueError: the text is none.
    """
    try:
        content = json.loads(reply.text)
        calls = tuple(ToolCall(name, arguments, id=id) for id, name, arguments in content[TOOL_CALLS])
        return Reply(content["text"], reply.call, reply.truncated, calls)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"its text and tool calls cannot be read: {error}") from None

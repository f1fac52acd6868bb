"""Protocol of backbones: requests and replies."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal, Protocol

from tasks.core.outcome import STANDARD, Call, ToolCall

Role = Literal["system", "user", "assistant", "tool"]
"""Who speaks; "tool" only where a conversation is shown (`as_texts`): a request has results in the message before."""


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str
    # characters at its beginning that it has in common, with all messages before it, with requests about other
    # questions; a provider's prefix cache is told so. It is in no key.
    shared: int = field(default=0, compare=False)
    # tools that the assistant called in it, with their results; a result is sent behind the message, in the form of
    # the protocol
    calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may call."""

    name: str
    description: str  # for the model
    parameters: Mapping[str, Any] = field(hash=False)  # JSON schema of the object of its arguments


@dataclass(frozen=True, slots=True)
class Origin:
    """Position of a request and its reply in a run, for recordings. It is not sent."""

    question: str  # id of the question
    database: str  # the benchmark's name of its database
    stage: str  # label of the stage, numbered from its second run on ("self_correction 2")
    round: int = 0  # index of the request within that run of the stage; 0 is the first

    def __str__(self) -> str:
        return f"question {self.question}, stage {self.stage}, round {self.round}"


@dataclass(frozen=True, slots=True)
class Request:
    """Request of a stage, independent of the backbone."""

    messages: tuple[Message, ...]  # the conversation so far, at least one message
    # JSON schema of the reply object; None for a free-text reply
    schema: Mapping[str, Any] | None = field(default=None, hash=False)
    temperature: float | None = None  # None for the backbone's own setting
    # index among repeated samples of one request; part of the key, so that asking again (after an unreadable reply, or
    # a `--fresh` re-run) is a different request
    sample: int = 0
    # who asks; None for a request outside a pipeline. It is in no key, and never sent
    origin: Origin | None = field(default=None, compare=False)
    tools: tuple[Tool, ...] = ()  # that the model may call, instead of or beside a text
    # how many of the first messages an earlier request of the conversation had; keys and stored requests have their
    # digest in place of them, so that a conversation is stored once and not once per turn
    known: int = 0
    tier: str = field(default=STANDARD, compare=False)  # service tier in which it is sent; in no key


@dataclass(frozen=True, slots=True)
class Reply:
    """Reply to a request."""

    text: str  # "" for an empty reply
    call: Call  # the bill of the request
    truncated: bool = False  # whether the model stopped at its token limit
    calls: tuple[ToolCall, ...] = ()  # tools that the model calls, without results


class Backbone(Protocol):
    """A language model behind a `complete` call."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Model, endpoint and sampling as plain JSON without secrets: part of every stage's cache key."""

    async def complete(self, request: Request) -> Reply:
        """Answer one request; BackboneError if it failed, `transient` if a later retry can succeed."""


def canonical_request(identity: Mapping[str, Any], request: Request) -> str:
    """Return a request as a given backbone would receive it, as JSON that never varies."""
    return _canonical({"backbone": dict(identity), **_asked(request)})


def stored_request(identity: Mapping[str, Any], request: Request) -> tuple[str, str]:
    """Return the canonical request in two JSON texts: its prompt, and the backbone with temperature and sample.

    The prompt is the same for every backbone and sample: it is stored once.
    """
    prompt = _asked(request)
    settings = {name: prompt.pop(name) for name in ("temperature", "sample")}
    return _canonical(prompt), _canonical({"backbone": dict(identity), **settings})


def request_key(identity: Mapping[str, Any], request: Request) -> str:
    """Return the sha256 of a request as a given backbone would receive it: the reply cache's key."""
    return _sha256(canonical_request(identity, request))


def request_digest(request: Request) -> str:
    """Return the sha256 of a request independent of the backbone: its key in recordings."""
    return _sha256(_canonical(_asked(request)))


def shared_prefix_digest(request: Request) -> str | None:
    """Return a digest of what a request has in common with requests about other questions; None for nothing."""
    indices = [index for index, message in enumerate(request.messages) if message.shared]
    if not indices:
        return None
    last = request.messages[indices[-1]]  # of which the first `shared` characters are in common
    before = [[message.role, message.content] for message in request.messages[: indices[-1]]]
    return _sha256(json.dumps([*before, [last.role, last.content[: last.shared]]]))


def digest_of_canonical(canonical: Mapping[str, Any]) -> str:
    """Return the `request_digest` of a request from its canonical form, read back from JSON."""
    return _sha256(_canonical({name: value for name, value in canonical.items() if name != "backbone"}))


def sent_texts(request: Request) -> Iterator[str]:
    """Yield the texts of a request: messages, tool calls with their results, and the tools on offer."""
    for message in request.messages:
        yield message.content
        for call in message.calls:
            yield from (call.arguments, call.result or "")
    for tool in request.tools:
        yield from (tool.description, json.dumps(tool.parameters))


def as_texts(messages: Iterable[Message]) -> Iterator[Message]:
    r"""Yield messages as texts: tool calls as lines of the assistant's message, results as messages of the tool.

    >>> call = ToolCall("tables", "{}", "museum(id)")
    >>> [(text.role, text.content) for text in as_texts([Message("assistant", "I look.", calls=(call,))])]
    [('assistant', 'I look.\ntables {}'), ('tool', 'museum(id)')]
    """
    for message in messages:
        lines = (message.content, *(f"{call.name} {call.arguments}" for call in message.calls))
        yield replace(message, content="\n".join(filter(None, lines)), calls=()) if message.calls else message
        yield from (Message("tool", call.result or "") for call in message.calls)


def messages_of(canonical: Mapping[str, Any]) -> tuple[Message, ...]:
    """Return the messages of a request from its canonical form, without those that were known before."""
    messages = []
    for role, content, *rest in canonical["messages"]:
        calls = rest[0] if rest else ()  # a message without tool calls has two parts
        messages.append(Message(role, content, calls=tuple(ToolCall(*call) for call in calls)))
    return tuple(messages)


def _asked(request: Request) -> dict[str, Any]:
    """Return what identifies a request; messages of earlier requests (`Request.known`) as a digest."""
    asked: dict[str, Any] = {
        "messages": [_said(message) for message in request.messages[request.known :]],
        "schema": request.schema,
        "temperature": request.temperature,
        "sample": request.sample,
    }
    if request.known:
        asked["known"] = _known_digest(request.messages[: request.known])
    if request.tools:
        tools = [[tool.name, tool.description, tool.parameters] for tool in request.tools]
        # a later request of a conversation has their digest: the first one has them in full
        asked["tools"] = _sha256(_canonical({"tools": tools})) if request.known else tools
    return asked


@lru_cache(maxsize=256)
def _known_digest(messages: tuple[Message, ...]) -> str:
    """Return the digest of messages; a request needs it three times, before and after it is sent."""
    return _sha256(_canonical({"messages": [_said(message) for message in messages]}))


def _said(message: Message) -> list[Any]:
    """Return a message without the ids of its tool calls, which a model draws at random."""
    calls = [[call.name, call.arguments, call.result] for call in message.calls]
    return [message.role, message.content, calls] if calls else [message.role, message.content]


def json_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is; None if it is none."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _canonical(content: Mapping[str, Any]) -> str:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


TOOL_CALLS = "tool_calls"


def stored_text(reply: Reply) -> str:
    """Return the text of a reply; of one that calls tools, a JSON object of its text and of id, name and arguments."""
    if not reply.calls:
        return reply.text
    calls = [[call.id, call.name, call.arguments] for call in reply.calls]
    return json.dumps({"text": reply.text, TOOL_CALLS: calls}, ensure_ascii=False)


def read_calls(stored: str) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the text and the tool calls of a `stored_text` that has some; ValueError if damaged."""
    content = json_object(stored) or {}
    text, calls = content.get("text"), content.get(TOOL_CALLS)
    if not isinstance(text, str) or not isinstance(calls, list) or not all(map(_is_call, calls)):
        raise ValueError("its text and tool calls cannot be read")
    return text, tuple(ToolCall(name, arguments, id=id) for id, name, arguments in calls)


def _is_call(stored: Any) -> bool:
    return isinstance(stored, list) and len(stored) == 3 and all(isinstance(part, str) for part in stored)

"""Extraction of JSON from replies: unchanged, fenced, within prose, or repaired."""

import ast
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Path = Literal["json", "fenced", "text", "repaired", "failed"]
Value = dict[str, Any] | list[Any]

LONGEST = 200_000
"""Characters of a reply that are looked at: repairing is not linear, and no reply of ours is that long."""
DEEPEST = 50
"""Brackets within brackets, beyond which text is taken for garbage."""

_FENCE = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\r?\n?(.*?)(?:```|\Z)", re.DOTALL)
_BRACKET = re.compile(r"[()\[\]{}]")
_CLOSING = {"{": "}", "[": "]"}


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """What was read in a reply."""

    value: Value | None  # the object or list; None when nothing could be read
    # how: "json" the text is JSON; "fenced" it is in a code fence; "text" it is within prose; "repaired" it was
    # broken; "failed" there is none
    path: Path


def read_json(text: str) -> ParsedReply:
    """Read the first object or list in a reply: strict JSON, then fences, then prose, then with repairs.

    >>> read_json('Sure! {"sql": "SELECT 1"}')
    ParsedReply(value={'sql': 'SELECT 1'}, path='text')
    >>> read_json("{'tables': ['a', 'b',]}")
    ParsedReply(value={'tables': ['a', 'b']}, path='repaired')
    """
    return next(readings(text), ParsedReply(None, "failed"))


def readings(text: str) -> Iterator[ParsedReply]:
    """Yield every object or list in a reply, the most reliable reading first."""
    for whole in (text, without_thoughts(text)):
        value = _loaded(whole)
        if value is not None:
            yield ParsedReply(value, "json")
            return
    text = without_thoughts(text)[:LONGEST].strip()
    fences = [content.strip() for _, content in fenced(text)]
    for content in fences:
        value = _loaded(content)
        if value is not None:
            yield ParsedReply(value, "fenced")
    spans = sorted(_spans(text), key=lambda span: span[0] != "{")
    for span in spans:
        value = _loaded(span)
        if value is not None:
            yield ParsedReply(value, "text")
    for broken in (*(content for content in fences if content[:1] in _CLOSING), *spans):
        value = _repaired(broken)
        if value is not None:
            yield ParsedReply(value, "repaired")


def fenced(text: str) -> list[tuple[str, str]]:
    """Return language and content of every code fence; a last one that is never closed counts too."""
    return [(language.lower(), content) for language, content in _FENCE.findall(text)]


def with_thoughts(thoughts: str, answer: str) -> str:
    """Return a reply whose thoughts came in a field of their own, in the form of models that write them into it.

    >>> with_thoughts("Which table?", "SELECT 1")
    '<think>Which table?</think>SELECT 1'
    """
    return f"<think>{thoughts}</think>{answer}" if thoughts else answer


def thoughts_of(text: str) -> str:
    """Return the reasoning that precedes a reply, "" where there is none.

    >>> thoughts_of("<think>Which table?</think> SELECT 1")
    'Which table?'
    """
    answer = without_thoughts(text)
    before = text[: len(text) - len(answer)].strip("\ufeff \n")
    return before.removeprefix("<think>").removesuffix("</think>").strip()


def without_thoughts(text: str) -> str:
    """Return a reply without the reasoning that some models put before it, between <think> tags.

    >>> without_thoughts("<think>Which table?</think> SELECT 1")
    ' SELECT 1'
    """
    text = text.removeprefix("\ufeff")
    if "</think>" in text:
        return text.rpartition("</think>")[2]
    return "" if text.lstrip().startswith("<think>") else text


def _loaded(text: str, *, strict: bool = True) -> Value | None:
    try:
        value = json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _spans(text: str) -> Iterator[str]:
    """Yield what is between matching brackets, outermost only; the last one may lack its end."""
    closers: list[str] = []
    start, quoted, escaped = -1, False, False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif quoted:
            escaped = character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = bool(closers)  # outside of brackets quotes are prose
        elif character in _CLOSING:
            start = start if closers else position
            closers.append(_CLOSING[character])
            if len(closers) > DEEPEST:
                return
        elif closers and character == closers[-1]:
            closers.pop()
            if not closers:
                yield text[start : position + 1]
    if closers and text[start] == "[":
        yield from _spans(text[start + 1 :])  # a bracket in prose; its tail comes last
    if closers:
        yield text[start:]


def _repaired(text: str) -> Value | None:
    # Line breaks within strings, then Python's own notation, which json_repair reads less faithfully.
    for read in (_unescaped, _python, _mended):
        value = read(text)
        if value:
            return value
    return None


def _unescaped(text: str) -> Value | None:
    return _loaded(text, strict=False)


def _python(text: str) -> Value | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _open_brackets(text: str) -> int:
    """Return how many brackets are open at most, those in quotes too: of many, json_repair tries every combination."""
    depth = most = 0
    for part in _BRACKET.findall(text):
        depth = depth + 1 if part in "([{" else max(depth - 1, 0)
        most = max(most, depth)
    return most


def _mended(text: str) -> Value | None:
    import json_repair

    if (text.startswith("{") and ":" not in text) or _open_brackets(text) > DEEPEST:
        return None
    try:
        value = json_repair.loads(text, skip_json_loads=True)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list) and text.startswith("{"):
        # Several objects, or an object and a rest: the first is what was asked for.
        value = next((part for part in value if isinstance(part, dict)), None)
    return value if isinstance(value, dict | list) else None

"""Questions as the page of a run holds them: compressed JSON in which each section of a prompt stands once."""

import base64
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Any

from tasks.core.trajectory import TURN
from tasks.documents.text import visible
from tasks.scoring.candidates import bill_line
from tasks.stage_runs.question_run import split_label

_SECTION = re.compile(r"^(?=### )", re.MULTILINE)


def with_one_prompt(question: dict[str, Any]) -> dict[str, Any]:
    """Leave out the calls of later turns, whose prompts are the conversation so far; the turns themselves are there."""
    for stage in question["stages"]:
        if stage["value"] and bill_line(stage["stage"]) == TURN:
            first = split_label(stage["stage"])[0] == TURN
            stage["calls"] = [call for call in stage["calls"] if first and call["messages"]]
    return question


def _messages(question: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for stage in question["stages"]:
        for call in stage["calls"]:
            yield from call["messages"] or ()


def shared_sections(questions: Any) -> dict[str, int]:
    """Return the sections that several messages have, each with its place on the page."""
    count = Counter(
        part
        for question in questions
        for each in _messages(question)
        for part in _SECTION.split(each["content"])
    )
    shared = (part for part, times in count.items() if times > 1 and len(part) > 40)
    return {part: place for place, part in enumerate(shared)}


def with_sections(question: dict[str, Any], shared: dict[str, int]) -> dict[str, Any]:
    """Replace the text of a question's messages by lists of sections: places of shared ones, text of others."""
    for message in _messages(question):
        message["content"] = [shared.get(part, part) for part in _SECTION.split(message["content"])]
    return question


def pack(value: Any) -> str:
    """Return a value as JSON, compressed, in base64; what could act in its texts is spelled out."""
    text = json.dumps(_visible(value), ensure_ascii=False, separators=(",", ":"), default=str)
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 9)).decode()


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {key: _visible(each) for key, each in value.items()}
    return [_visible(each) for each in value] if isinstance(value, list | tuple) else value

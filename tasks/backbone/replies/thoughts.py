"""Thoughts of reasoning models in the text of a reply, in every notation that servers are known to leave there."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tasks.backbone.protocol import json_object


class Notation(NamedTuple):
    """How models mark the text that they think before they answer."""

    start: str
    end: str
    models: str
    end_alone: bool = True  # whether the end counts without the start, which a chat template may have written


_FINAL = "<|channel|>final<|message|>"
NOTATIONS = (
    Notation("<think>", "</think>", "DeepSeek, Qwen3, GLM-4.5, Kimi K2, MiniMax-M2, Nemotron, Olmo 3, ERNIE"),
    Notation("<|begin_of_thought|>", "<|end_of_thought|>", "OpenThinker, Sky-T1"),
    Notation("<seed:think>", "</seed:think>", "Seed-OSS"),
    Notation("<mm:think>", "</mm:think>", "MiniMax-M3"),
    Notation("<longcat_think>", "</longcat_think>", "LongCat"),
    Notation("<|think:start|>", "<|think:end|>", "Solar Open 2"),
    Notation("<ifm|think>", "</ifm|think>", "K2 Horizon"),
    Notation("<ifm|think_fast>", "</ifm|think_fast>", "K2 Horizon"),
    Notation("<ifm|think_faster>", "</ifm|think_faster>", "K2 Horizon"),
    Notation("[THINK]", "[/THINK]", "Magistral, Mistral Small 4"),
    Notation("[unused16]", "[unused17]", "openPangu"),
    Notation("<unused94>thought\n", "<unused95>", "MedGemma"),
    Notation("<|think|>", "<|end|><|begin|>assistant<|content|>", "Solar Open 100B"),
    Notation("<|im_start|>think\n", "<|im_start|>answer\n", "s1"),
    Notation("◁think▷", "◁/think▷", "Kimi k1.5, Kimi-VL"),
    Notation("<|START_THINKING|>", "<|END_THINKING|>", "Command A Reasoning"),
    Notation("<|inner_prefix|>", "<|inner_suffix|>", "Apertus"),
    Notation("<|channel>thought", "<channel|>", "Gemma 4"),
    Notation("<|open|>think<|sep|>", "<|close|>think<|sep|>", "Kimi K3"),
    Notation("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>", "PLaMo 3"),
    Notation("to=self<|message|>", "<|eom|>", "Muse Glimmer", end_alone=False),
    Notation("/think\n", "<|im_end|>\n<|im_start|>assistant", "HyperCLOVAX SEED Think 14B", end_alone=False),
    Notation("<|content_thinking|>", "<|content_text|>", "Inkling"),
    Notation("<|channel|>analysis<|message|>", _FINAL, "gpt-oss (harmony)"),
    Notation("analysis", "assistantfinal", "gpt-oss without its special tokens", end_alone=False),
    Notation("Here is my thought process:", "Here is my response:", "Granite 3.2", end_alone=False),
    Notation("Here's my thought process:", "Here's my response:", "Granite 3.2, quantized", end_alone=False),
)
"""The notations of the reasoning parsers of vLLM (`vllm/reasoning`) and SGLang (`reasoning_parser.py`) in November
2026, and of models that have a parser of their own."""

_FRAME = (
    r"(?:<\|start\|>assistant)? ?(?:to=user)?<\|message\|>"
    r"|<\|(?:open|close)\|>(?:response|message)<\|sep\|>|<\|[\w:]{1,40}\|>|</?(?:answer|response)>"
    r"|\[END FINAL RESPONSE\]"
)
_FRAMED = re.compile(rf"\A(?:\s*(?:{_FRAME}))+|(?:(?:{_FRAME})\s*)+\Z")
"""Marks around the answer of models that mark it, too."""
_PREFIX = re.compile(r"\A(?:\ufeff|\s|<\|(?:start|message_model)\|>(?:assistant)?)*")
"""What may precede the start of the thoughts."""

_FINAL_START = re.compile(
    r"\[BEGIN FINAL RESPONSE\]"
    r"|<\|channel\|>\s*final\s*(?:<\|constrain\|>(?:\s*\w+\s*(?=<\|(?:message|constrain)\|>))?)+(?:<\|message\|>)?"
)
"""Start of an answer whose form is named, `<|channel|>final <|constrain|>json<|message|>`, also without its end, and of
one of Apriel, whose thoughts begin in plain words."""
_TAG = "think|thinking|thoughts?|reason|reasoning|analysis|scratchpad|cot"
_VARIANT = re.compile(rf"(?:<|&lt;) ?(/?) ?(?:{_TAG})(?::[\w-]{{1,40}})? ?(?:>|&gt;)", re.IGNORECASE)
"""A tag around thoughts in any spelling: `<THINK>`, `< think >`, `<thought>` (EXAONE Deep), `<reasoning>` (gpt-oss at
Amazon Bedrock), `<think:opensource>` (Hunyuan 3 and 4, whose checkpoints have other suffixes), and as HTML has it. It
is read as `<think>`."""
_BLOCK = re.compile(
    r"\A\s*(?:<details\b[^>]*\btype=[\"']?reasoning\b[^>]*>(.*?)(?:</details>|\Z)"
    r"|```(?:think|thinking|thoughts?|reasoning)\n(.*?)(?:\n```|\Z))",
    re.DOTALL,
)
"""Thoughts as Open WebUI shows them, and in a fence of their own."""
_QUOTES = ("'", '"', "%")
"""A mark between two of these is quoted, as in `LIKE '%</think>%'`."""


def split_thoughts(text: str) -> tuple[str, str]:
    """Return the thoughts and the answer of a reply.

    The answer is behind the last end of thoughts, and ends where thoughts start again; a JSON object that fills the
    reply behind an end is the answer, whatever its texts quote. A reply that begins with thoughts and does not end them
    has no answer; if their start is plain words (`end_alone` is False), it has no thoughts, unless a capital follows as
    in "analysisWe need". A reply that is a JSON object as a whole has no thoughts.

    >>> split_thoughts("[THINK]Which table?[/THINK] SELECT 1")
    ('Which table?', ' SELECT 1')
    """
    text = text.removeprefix("\ufeff")
    bare = _PREFIX.sub("", text)
    if bare.startswith("{") and json_object(bare) is not None:
        return "", text
    original = text
    text = _BLOCK.sub(lambda block: f"<think>{block[1] or block[2] or ''}</think>", text)
    text = _VARIANT.sub(r"<\1think>", text)
    text = _FINAL_START.sub(_FINAL, text)
    bare = _PREFIX.sub("", text)
    opened = next((notation for notation in NOTATIONS if bare.startswith(notation.start)), None)
    marks = [notation.end for notation in NOTATIONS if notation.end_alone or notation is opened]
    ends = [end for _, end in _marked(text, marks)]
    if not ends:
        cut_off = opened and (opened.end_alone or bare.removeprefix(opened.start)[:1].isupper())
        return (_unmarked(bare), "") if cut_off else ("", original)
    for end in ends:
        answer = _FRAMED.sub("", text[end:])
        if answer.startswith("{") and json_object(answer) is not None:
            return _unmarked(text[:end]), answer
    answer = text[ends[-1] :]
    starts = _marked(answer, [notation.start for notation in NOTATIONS if notation.end_alone])
    answer = _FRAMED.sub("", answer[: starts[0][0] if starts else len(answer)])
    thoughts = _unmarked(text[: ends[-1]])
    return ("", thoughts) if not answer.strip() and json_object(thoughts) else (thoughts, answer)


def _marked(text: str, marks: Iterable[str]) -> list[tuple[int, int]]:
    """Return where marks start and end in a text, without those in quotes."""
    spans = sorted(span for mark in marks for span in _occurrences(text, mark))
    return [
        (start, end)
        for start, end in spans
        if not (text[start - 1 : start] in _QUOTES and text.startswith(_QUOTES, end))
    ]


def _occurrences(text: str, mark: str) -> Iterator[tuple[int, int]]:
    start = text.find(mark)
    while start >= 0:
        yield start, start + len(mark)
        start = text.find(mark, start + len(mark))


def without_thoughts(text: str) -> str:
    """Return a reply without the thoughts before its answer."""
    return split_thoughts(text)[1]


def thoughts_of(text: str) -> str:
    """Return the thoughts before the answer of a reply; "" if there are none."""
    return split_thoughts(text)[0]


def with_thoughts(thoughts: str, answer: str) -> str:
    """Return a reply whose thoughts came in a field of their own, in the form of models that write them into it."""
    return f"<think>{thoughts}</think>{answer}" if thoughts else answer


def _unmarked(thoughts: str) -> str:
    """Return thoughts without the marks around them."""
    for notation in NOTATIONS:
        if notation.end_alone:
            thoughts = thoughts.replace(notation.start, "").replace(notation.end, "")
        elif thoughts.startswith(notation.start):
            thoughts = thoughts.removeprefix(notation.start).removesuffix(notation.end)
    return _PREFIX.sub("", thoughts).strip()

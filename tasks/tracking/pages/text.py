"""Hostile text made visible, and a judged answer in words: on a terminal, in Markdown and on a page alike."""

import re

from tasks.core.wording import counted
from tasks.scoring.report import QuestionScore, is_right

_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
_STATUS = {
    "error": "wrong, does not run",
    "timeout": "wrong, stopped at the time limit",
    "too_large": "wrong, more rows than are allowed",
    "no_answer": "no answer",
}


def visible(text: str) -> str:
    """Return text with control and direction characters spelled out.

    Questions and SQL may hold anything; escape codes would repaint a terminal, and direction marks show SQL in
    another order than it runs in.

    >>> visible("SELECT 1 " + chr(27) + "[2J" + chr(0x202E))
    'SELECT 1 ␛[2J<U+202E>'
    """
    return _CONTROL.sub(_spell, text.replace("\r\n", "\n"))


def _spell(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\N{SYMBOL FOR DELETE}" if code == 0x7F else f"<U+{code:04X}>"


def answer_in_words(score: QuestionScore, rule: str) -> str:
    """Describe one answer: right, wrong, or why it could not be judged, with the database's message."""
    final, failure = score.final, score.outcome.failure
    rows = "" if final.row_count is None else f", {counted(final.row_count, 'row')}"
    if is_right(final, rule):
        return f"right{rows}"
    if final.status == "ok":
        return f"wrong: {final.difference_in_words}" if final.difference else f"wrong{rows}"
    status = _STATUS.get(final.status, final.status)
    why = failure.message if failure else final.error
    return f"{status}: {why}" if why else status

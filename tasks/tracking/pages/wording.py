"""Numbers and hostile text as a person may read them, on a terminal and on a page alike."""

import re

from tasks.scoring.report import QuestionScore, Ratio, is_right
from tasks.tracking.comparison.records import RunComparison, Side

MINUS = "\N{MINUS SIGN}"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def visible(text: str) -> str:
    """Return text in which nothing acts: control and direction characters are spelled out.

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


def percent(ratio: Ratio | None) -> str:
    """Write a share with two decimals; a dash where there is none."""
    return "\N{EN DASH}" if ratio is None or ratio.value is None else f"{100 * ratio.value:.2f} %"


def counts(ratio: Ratio | None) -> str:
    """Write numerator and denominator; "" where there is none."""
    return "" if ratio is None else f"{ratio.correct:,g} of {ratio.total:,g}"


def points(share: float | None) -> str:
    """Write a difference of shares in percentage points, signed; a dash where there is none.

    >>> points(0.0125), points(-0.5), points(0.0)
    ('+1.25', '−50.00', '0.00')
    """
    if share is None:
        return "\N{EN DASH}"
    number = f"{100 * share:+.2f}"
    return number[1:] if float(number) == 0 else number.replace("-", MINUS)


def p_value(p: float | None) -> str:
    """Write a p-value; a dash where there is none.

    >>> p_value(0.0412), p_value(1.0), p_value(3.2e-9)
    ('0.041', '1', '3.2e-09')
    """
    return "\N{EN DASH}" if p is None else f"{p:.2g}"


def answer_in_words(score: QuestionScore, rule: str) -> str:
    """Say how one answer fared: right, wrong, or what kept it from being judged, with the database's message."""
    final, failure = score.final, score.outcome.failure
    rows = (
        "" if final.row_count is None else f", {final.row_count:,} row{'' if final.row_count == 1 else 's'}"
    )
    if is_right(final, rule):
        return f"right{rows}"
    if final.status == "ok":
        return f"wrong{rows}"
    how = {
        "error": "wrong, does not run",
        "timeout": "wrong, stopped at the time limit",
        "too_large": "wrong, more rows than are allowed",
        "no_answer": "no answer",
    }.get(final.status, final.status)
    why = failure.message if failure else final.error
    return f"{how}: {why}" if why else how


def left_out(comparison: RunComparison) -> tuple[str, ...]:
    """Say which questions are not compared, in sentences; () when both runs scored the same ones."""
    sentences = []
    for side in (comparison.a, comparison.b):
        if side.only:
            sentences.append(
                f"{len(side.only):,} questions that only {side.letter} scored are left out: the comparison is on the "
                f"{comparison.result.questions:,} that both scored."
            )
        if side.not_executable:
            sentences.append(
                f"{side.not_executable:,} questions of {side.letter} could not be scored, their database was missing."
            )
    return tuple(sentences)


def money(side: Side) -> str:
    """Write what a run paid; "unknown" where a paid call has no price."""
    return "unknown" if side.cost.cost_usd is None else f"${side.cost.cost_usd:,.4f}"


def number(value: int | None) -> str:
    """Write a count; "unknown" where it is not known."""
    return "unknown" if value is None else f"{value:,}"


def seconds(value: float | None) -> str:
    """Write a duration; a dash where there is none."""
    return "\N{EN DASH}" if value is None else f"{value:,.2f} s"

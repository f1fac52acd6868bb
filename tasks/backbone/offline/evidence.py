"""Evidence: sentences that say which column, condition or formula a phrase of the question refers to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.backbone.offline.formula import Formula, Resolve, read_formula
from tasks.backbone.offline.lexicon import STOP
from tasks.backbone.offline.query import Expression
from tasks.backbone.offline.schema import PromptSchema
from tasks.backbone.offline.words import Token, likeness, tokenize
from tasks.records import ColumnName

_REFERS = re.compile(
    r"\s*(?:,\s*)?\b(?:refers?\s+to|refer\s+to|means?|stands?\s+for|is\s+given\s+by|corresponds?\s+to|are\s+all|is\s+the"
    r"|is|are|can\s+be\s+represented\s+by)\b\s*|\s+=\s+(?=[A-Za-z]+\s*\()",
    re.IGNORECASE,
)
_SPLIT = re.compile(r";|\n|\.(?=\s+[A-Z])|\.$")
_LIST = re.compile(r"\s*(?:,|\band\b|\+)\s*")


@dataclass(frozen=True, slots=True)
class Hint:
    """What one sentence of the evidence says of the question.

    Attributes:
        start: index of the first token of the question that it explains.
        end: index after the last.
        columns: columns that the words refer to.
        condition: condition that the words stand for.
        formula: expression that the words ask for.
        aggregate: outermost aggregate of the formula.
    """

    start: int
    end: int
    columns: tuple[ColumnName, ...] = ()
    condition: Expression | None = None
    formula: Expression | None = None
    aggregate: str = ""


def read_evidence(
    evidence: str, tokens: Sequence[Token], schema: PromptSchema, resolve: Resolve
) -> tuple[Hint, ...]:
    """Return what the evidence says of a question; sentences that cannot be read, or do not fit it, are left out.

    Args:
        evidence: the section "Evidence".
        tokens: the question.
        schema: whose columns may be named.
        resolve: chooses among columns of one name.
    """
    found: list[Hint] = []
    for sentence in _sentences(evidence[:4000]):
        parts = _REFERS.split(sentence, maxsplit=1)
        if len(parts) == 2 and all(part.strip() for part in parts):
            hint = _hint(parts[0], parts[1], tokens, schema, resolve)
        else:
            hint = _bare_condition(sentence, tokens, schema, resolve)
        if hint is not None and not any(
            h.start < hint.end and hint.start < h.end for h in found if hint.condition is None
        ):
            found.append(hint)
    return tuple(found)


def _sentences(evidence: str) -> list[str]:
    """Split evidence at semicolons and full stops that stand in no quotes."""
    held: list[str] = []

    def hold(match: re.Match[str]) -> str:
        held.append(match[0])
        return f"\x00{len(held) - 1}\x00"

    masked = re.sub(r"(?<!\w)'(?:[^']|'')*'(?!\w)|\"[^\"]*\"|`[^`]*`", hold, evidence)
    pieces = (
        re.sub(r"\x00(\d+)\x00", lambda m: held[int(m[1])], piece).strip() for piece in _SPLIT.split(masked)
    )
    return [piece for piece in pieces if piece]


def _hint(
    phrase: str, meaning: str, tokens: Sequence[Token], schema: PromptSchema, resolve: Resolve
) -> Hint | None:
    """Read "phrase refers to meaning", or "column is the phrase" the other way round."""
    formula = _read(meaning, schema, resolve)
    if formula is None:
        turned = _read(phrase, schema, resolve)
        if turned is None or turned.is_condition or turned.aggregate:
            return None
        span = _span(meaning, tokens)
        return Hint(*span, columns=turned.columns) if span else None
    span = _span(phrase, tokens) or (_span_of_values(meaning, tokens) if formula.is_condition else None)
    if span is None:
        return None
    if formula.is_condition:
        return Hint(*span, condition=formula.expression)
    if formula.aggregate:
        return Hint(*span, columns=formula.columns, formula=formula.expression, aggregate=formula.aggregate)
    return Hint(*span, columns=formula.columns)


def _bare_condition(
    sentence: str, tokens: Sequence[Token], schema: PromptSchema, resolve: Resolve
) -> Hint | None:
    """Read a sentence that is nothing but a condition."""
    formula = _read(sentence, schema, resolve)
    span = _span_of_values(sentence, tokens) if formula and formula.is_condition else None
    return Hint(*span, condition=formula.expression) if formula and span else None


def _read(text: str, schema: PromptSchema, resolve: Resolve) -> Formula | None:
    """Read a formula, a list of columns, or a formula with an explanation behind it."""
    text = text.strip().rstrip(".,")
    formula = read_formula(text, schema, resolve)
    if formula is not None:
        return formula
    pieces = _LIST.split(text)
    listed = [read_formula(piece, schema, resolve) for piece in pieces if piece.strip()]
    if len(listed) > 1 and all(one and not one.is_condition and not one.aggregate for one in listed):
        columns = tuple(column for one in listed if one for column in one.columns)
        return Formula(Expression(columns), False, "", columns)
    if len(pieces) > 1 and listed and listed[0] is not None:
        return listed[0]
    return None


def _span(phrase: str, tokens: Sequence[Token]) -> tuple[int, int] | None:
    """Return the tightest part of the question that says most of a phrase's words."""
    wanted = [token for token in tokenize(phrase) if token.lower not in STOP and token.kind != "mark"]
    if not wanted:
        return None
    hits = [index for index, token in enumerate(tokens) if any(_same(token, one) for one in wanted)]
    best: tuple[float, int, int] | None = None
    for first in range(len(hits)):
        for last in range(first, min(first + 8, len(hits))):
            start, end = hits[first], hits[last] + 1
            said = sum(any(_same(token, one) for token in tokens[start:end]) for one in wanted)
            score = said - 0.15 * (end - start)
            if best is None or score > best[0]:
                best = (score, start, end)
    if best is None:
        return None
    said = sum(any(_same(token, one) for token in tokens[best[1] : best[2]]) for one in wanted)
    return (best[1], best[2]) if said / len(wanted) >= 0.5 else None


def _same(token: Token, other: Token) -> bool:
    """Whether two tokens say the same."""
    if token.stem and other.stem:
        return likeness(token.stem, other.stem) >= 0.75
    return bool(token.lower) and token.lower == other.lower and token.kind != "mark"


def _span_of_values(meaning: str, tokens: Sequence[Token]) -> tuple[int, int] | None:
    """Return where the question says a value of a condition."""
    for text in re.findall(r"'((?:[^']|'')+)'", meaning):
        if span := _span(text, tokens):
            return span
    return None

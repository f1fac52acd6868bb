"""Evidence: sentences that say which column, condition or formula a phrase of the question refers to."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.backbone.offline.english.lexicon import STOP
from tasks.backbone.offline.english.words import Token, likeness, tokenize
from tasks.backbone.offline.prompt.schema import PromptSchema
from tasks.backbone.offline.query import Expression
from tasks.backbone.offline.question.formula import Resolve, read_formula
from tasks.records import ColumnName

_REFERS = re.compile(
    r"\s*,?\s*\b(?:refers?\s+to|means?|stands?\s+for|is\s+given\s+by|corresponds?\s+to|are\s+all|is\s+the|is|are)\b\s*"
    r"|\s+=\s+(?=[A-Za-z]+\s*\()",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?:'[^']*'|\"[^\"]*\"|`[^`]*`|[^;\n.]|\.(?!\s+[A-Z]|$))+")


@dataclass(frozen=True, slots=True)
class Hint:
    """What one sentence of the evidence says of the question.

    Attributes:
        start: index of the first token of the question that it explains.
        end: index after the last.
        columns: columns that the words refer to.
        condition: condition that the words stand for.
        formula: expression with aggregates that the words ask for.
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
    """Return what the evidence says of a question; sentences that cannot be read, or do not fit it, are left out."""
    found: list[Hint] = []
    for sentence in _SENTENCE.findall(evidence[:4000]):
        phrase, *meaning = _REFERS.split(sentence, maxsplit=1)
        hint = _hint(phrase, meaning[0], tokens, schema, resolve) if meaning else None
        if hint and not any(h.start < hint.end and hint.start < h.end for h in found if not hint.condition):
            found.append(hint)
    return tuple(found)


def _hint(
    phrase: str, meaning: str, tokens: Sequence[Token], schema: PromptSchema, resolve: Resolve
) -> Hint | None:
    """Read "phrase refers to meaning", or "column is the phrase" the other way round."""
    formula = read_formula(meaning, schema, resolve)
    if formula is None:
        formula, phrase = read_formula(phrase, schema, resolve), meaning
        if formula is None or formula.is_condition or formula.aggregate:
            return None
    span = _span(phrase, tokens)
    if span is None:
        return None
    if formula.is_condition:
        return Hint(*span, condition=formula.expression)
    return Hint(
        *span, formula.columns, None, formula.expression if formula.aggregate else None, formula.aggregate
    )


def _span(phrase: str, tokens: Sequence[Token]) -> tuple[int, int] | None:
    wanted = [token for token in tokenize(phrase) if token.lower not in STOP and token.kind != "mark"]
    hits = [index for index, token in enumerate(tokens) if any(_same(token, one) for one in wanted)]
    spans = [(start, end + 1) for n, start in enumerate(hits) for end in hits[n : n + 8]]

    def said(span: tuple[int, int]) -> int:
        return sum(any(_same(token, one) for token in tokens[slice(*span)]) for one in wanted)

    best = max(spans, key=lambda span: said(span) - 0.15 * (span[1] - span[0]), default=None)
    return best if best and said(best) / len(wanted) >= 0.5 else None


def _same(token: Token, other: Token) -> bool:
    return token.lower == other.lower or bool(token.stem and likeness(token.stem, other.stem) >= 0.75)

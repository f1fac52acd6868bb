"""Evidence: sentences that say which column or condition a phrase of the question refers to."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tasks.backbone.offline.prompt.english import STOP, Token, likeness, tokenize
from tasks.backbone.offline.prompt.schema import PromptSchema
from tasks.backbone.offline.question.query import (
    BacktickedSQLite,
    Expression,
    columns_of,
    plain,
    text_literal,
)
from tasks.core.records import ColumnName

Resolve = Callable[[tuple[ColumnName, ...]], ColumnName]
"""Chooses among columns of one name."""

_CONDITIONS = (exp.Predicate, exp.Connector, exp.Not)
_BARE_TEXT = re.compile(r"(?<=[=>])\s*([A-Za-z]\w*(?: \w+)+?)\s*(?=$|[),]|\band\b|\bor\b)", re.IGNORECASE)
_REFERS = re.compile(
    r"(?:(?<!\s)\s++)?(?:,\s*+)?\b(?:refers?\s+to|means?|stands?\s+for|is\s+given\s+by|corresponds?\s+to|are\s+all|is\s+the|is|are)\b\s*"
    r"|(?<!\s)\s++=\s++(?=[A-Za-z]++\s*+\()",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?:'[^']*'|\"[^\"]*\"|`[^`]*`|[^;\n.]|\.(?!\s+[A-Z]|$))+")


@dataclass(frozen=True, slots=True)
class Hint:
    """What the evidence says of some tokens of the question: which columns, or which condition, they refer to."""

    start: int
    end: int
    columns: tuple[ColumnName, ...] = ()
    condition: Expression | None = None


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
    formula = _formula(meaning, schema, resolve)
    if formula is None:
        formula, phrase = _formula(phrase, schema, resolve), meaning
        if isinstance(formula, _CONDITIONS):
            return None
    span = _span(phrase, tokens)
    if formula is None or span is None:
        return None
    if isinstance(formula, _CONDITIONS):
        return Hint(*span, condition=formula)
    return Hint(*span, columns_of(formula))


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


def _formula(text: str, schema: PromptSchema, resolve: Resolve) -> Expression | None:
    """Read a condition, nearly SQL without quotes, or a column; None when it names what the schema does not have."""
    try:
        select = sqlglot.parse_one(
            "SELECT " + _with_quotes(text[:600].strip(" ,."), schema), dialect=BacktickedSQLite
        )
        (tree,) = select.expressions
        tree = tree.transform(lambda node: _with_columns(node, schema, resolve)).unnest()
    except (SqlglotError, RecursionError, LookupError, ValueError):
        return None
    known = isinstance(tree, (exp.Column, *_CONDITIONS)) and columns_of(tree)
    return tree if known and not tree.find(exp.Query, exp.Func) and not select.find(exp.From) else None


def _with_quotes(text: str, schema: PromptSchema) -> str:
    odd = (column.name.column for column in schema.columns if re.search(r"\W|_", column.name.column))
    names = {name.replace("_", " ").lower(): f"`{name}`" for name in odd}
    for words in sorted((words for words in names if words in text.lower()), key=len, reverse=True):
        text = re.sub(
            rf"(?<![\w`\"']){re.escape(words)}(?![\w`\"'])",
            lambda found: names[found[0].lower()],
            text,
            flags=re.IGNORECASE,
        )
    return _BARE_TEXT.sub(r" '\1'", re.sub(r"(?<=\d)\s?%", "", text))


def _with_columns(node: Expression, schema: PromptSchema, resolve: Resolve) -> Expression:
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return node
    found = schema.find(node.name, node.table) or schema.find(node.name)
    if found:
        return plain(found[0] if len(found) == 1 else resolve(found))
    if isinstance(node.parent, exp.Binary) and node.arg_key == "expression":
        return text_literal(node.name)
    raise LookupError(node.name)

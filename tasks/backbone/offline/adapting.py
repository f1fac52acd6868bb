"""Adapting a demonstration over the same database: its query, with the values of the question asked."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tasks.backbone.offline.prompt.english import STOP, Token, stem, stems, tokenize
from tasks.backbone.offline.prompt.reading import Example
from tasks.backbone.offline.prompt.schema import PromptSchema
from tasks.backbone.offline.question.query import BacktickedSQLite, Expression, text_literal, written
from tasks.backbone.offline.question.text import QuestionText
from tasks.backbone.offline.question.values import Value

_VALUE = "<v>"
_LIGHT = frozenset(map(stem, STOP)) | frozenset(stems("whose record name shown on so far ever"))


@dataclass(frozen=True, slots=True)
class Adaptation:
    """A demonstration's query made to fit, and how alike the two questions are without their values, in 0..1."""

    sql: str
    likeness: float


def adapt(example: Example, text: QuestionText, values: Sequence[Value]) -> Adaptation | None:
    """Return the demonstration's query with the question's values, None where it does not fit."""
    try:
        query = sqlglot.parse_one(example.sql[:4000], dialect=BacktickedSQLite)
        query = query.transform(lambda node: _with_text(node, text.schema))
    except (SqlglotError, RecursionError):
        return None
    words = tokenize(example.question)
    shown = _values_of(words, query)
    kinds = [[value.is_number for value in side] for side in (shown, values)]
    if kinds[0] != kinds[1] or not _fits(query, text.schema):
        return None
    exchanged = {old.text.lower(): new.text for old, new in zip(shown, values, strict=True)}
    query = query.transform(lambda node: _with_value(node, exchanged))
    alike = _likeness(_masked(words, shown), _masked(text.tokens, values))
    return Adaptation(written(query, text.schema.dialect), alike)


def _values_of(words: Sequence[Token], query: Expression) -> list[Value]:
    """Return the values of a demonstration's question: what its query holds as literals."""
    said = [token.text.lower() if token.kind == "number" else token.lower for token in words]
    values: dict[int, Value] = {}
    for literal in query.find_all(exp.Literal):
        wanted = [t.lower for t in tokenize(re.sub(r"^%|[-/]?%$", "", literal.name)) if t.kind != "mark"]
        for start in range(len(words) - len(wanted) + 1):
            end = start + len(wanted)
            if wanted and start not in values and said[start:end] == wanted:
                text = " ".join(token.text for token in words[start:end])
                values[start] = Value(start, end, text, is_number=not literal.is_string or text.isdigit())
                break
    return [value for _, value in sorted(values.items())]


def _masked(tokens: Sequence[Token], values: Sequence[Value]) -> list[str]:
    """Return the stems of a question, with one mark for each value."""
    starts = {value.start for value in values}
    inside = {index for value in values for index in range(value.start + 1, value.end)}
    return [
        _VALUE if index in starts else token.stem or token.lower
        for index, token in enumerate(tokens)
        if index not in inside and (index in starts or token.kind != "mark")
    ]


def _likeness(shown: Sequence[str], asked: Sequence[str]) -> float:
    """Return how alike two questions are, in 0..1; stop words count less, words that differ more."""
    total = same = 0.0
    strange = 0
    for tag, a, b, c, d in SequenceMatcher(None, shown, asked, autojunk=False).get_opcodes():
        sides = [[_weight(word) for word in side] for side in (shown[a:b], asked[c:d])]
        total += sum(map(sum, sides))
        same += sum(map(sum, sides)) if tag == "equal" else 0.0
        strange += 0 if tag == "equal" else max(side.count(1.0) for side in sides)
    return float(same / total * 0.8**strange) if total else 0.0


def _weight(word: str) -> float:
    return 0.5 if word == _VALUE else 0.3 if word in _LIGHT else 1.0


def _with_text(node: Expression, schema: PromptSchema) -> Expression:
    is_text = isinstance(node, exp.Column) and not node.table and node.this.args.get("quoted")
    return text_literal(node.name) if is_text and not schema.find(node.name) else node


def _fits(query: Expression, schema: PromptSchema) -> bool:
    own = {node.alias.lower() for node in query.find_all(exp.Alias, exp.CTE, exp.Subquery, exp.Table)}
    tables = [node.name for node in query.find_all(exp.Table) if node.name.lower() not in own]
    columns = (node for node in query.find_all(exp.Column) if not isinstance(node.this, exp.Star))
    named = (schema.find(node.name) or node.name.lower() in own for node in columns)
    return isinstance(query, exp.Query) and bool(tables) and all(map(schema.table, tables)) and all(named)


def _with_value(node: Expression, values: Mapping[str, str]) -> Expression:
    if not isinstance(node, exp.Literal):
        return node
    old = node.name.lower()
    inside = old if old in values else next((one for one in values if one in old and node.is_string), "")
    if not inside:
        return node
    at = old.index(inside)
    changed = node.name[:at] + values[inside] + node.name[at + len(inside) :]
    return exp.Literal(this=changed, is_string=node.is_string)

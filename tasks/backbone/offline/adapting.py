"""Adapting a demonstration over the same database: its query, with the values and comparisons of the question asked."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tasks.backbone.offline.alignment import align, likeness, units_of, units_of_example
from tasks.backbone.offline.english.words import stem
from tasks.backbone.offline.prompt.reading import Example
from tasks.backbone.offline.prompt.schema import PromptSchema
from tasks.backbone.offline.query import OPERATORS, BacktickedSQLite, Expression, text_literal
from tasks.backbone.offline.question.text import QuestionText
from tasks.backbone.offline.question.values import Value


@dataclass(frozen=True, slots=True)
class Adaptation:
    """A demonstration's query made to fit, and how alike the two questions are without their values, in 0..1."""

    sql: str
    likeness: float


def adapt(example: Example, text: QuestionText, values: Sequence[Value]) -> Adaptation | None:
    """Return the demonstration's query for the question and its values, None where it cannot be made to fit."""
    if not re.match(r"(?i)select|with", example.sql):
        return None
    try:
        query = sqlglot.parse_one(example.sql[:4000], dialect=BacktickedSQLite)
        query = query.transform(lambda node: _with_text(node, text.schema))
    except (SqlglotError, RecursionError):
        return None
    shown = units_of_example(example.question, list(query.find_all(exp.Literal)))
    asked = units_of(text.tokens, {value.start: value for value in values})
    pairs = [[unit for unit in side if unit.value] for side in (shown, asked)]
    kinds = [[unit.value.is_number for unit in side if unit.value] for side in pairs]
    if kinds[0] != kinds[1] or not _fits(query, text.schema):
        return None
    explained = {unit for side in pairs for unit in side}
    exchanged = {
        old.value.text.lower(): new.value.text
        for old, new in zip(*pairs, strict=True)
        if old.value and new.value
    }
    operators: dict[str, str] = {}
    runs = align(shown, asked)
    for run in runs:
        if run.equal or not run.shown or len(run.asked) != 1:
            continue
        said = {unit.key for unit in run.shown}
        literals = [
            one.name for one in query.find_all(exp.Literal) if one.is_string and stem(one.name) in said
        ]
        if len(run.shown) == 1 and run.shown[0].is_operator and run.asked[0].is_operator:
            operators[run.shown[0].key] = run.asked[0].key
        elif len(literals) == 1:
            exchanged[literals[0].lower()] = text.tokens[run.asked[0].start].lower.removesuffix("s")
        else:
            continue
        explained.update((*run.shown, *run.asked))
    query = query.transform(lambda node: _with_value(node, exchanged))
    query = query.transform(lambda node: _with_operator(node, operators))
    return Adaptation(query.sql(BacktickedSQLite), likeness(runs, explained))


def _with_text(node: Expression, schema: PromptSchema) -> Expression:
    is_text = isinstance(node, exp.Column) and not node.table and node.this.args.get("quoted")
    return text_literal(node.name) if is_text and not schema.find(node.name) else node


def _fits(query: Expression, schema: PromptSchema) -> bool:
    own = {node.alias.lower() for node in query.find_all(exp.Alias, exp.CTE, exp.Subquery, exp.Table)}
    tables = [node.name for node in query.find_all(exp.Table) if node.name.lower() not in own]
    columns = (node for node in query.find_all(exp.Column) if not isinstance(node.this, exp.Star))
    named = (schema.find(node.name) or node.name.lower() in own for node in columns)
    return bool(tables) and all(map(schema.table, tables)) and all(named)


def _with_value(node: Expression, values: Mapping[str, str]) -> Expression:
    if not isinstance(node, exp.Literal):
        return node
    old, text = node.name.lower(), node.name
    if old in values:
        return exp.Literal(this=values[old], is_string=node.is_string)
    inside = next((one for one in values if one in old), "") if node.is_string else ""
    at = old.index(inside)
    return text_literal(text[:at] + values[inside] + text[at + len(inside) :]) if inside else node


def _with_operator(node: Expression, operators: Mapping[str, str]) -> Expression:
    new = next((new for old, new in operators.items() if isinstance(node, OPERATORS[old])), "")
    return OPERATORS[new](this=node.this, expression=node.expression) if new else node

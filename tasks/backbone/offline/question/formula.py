"""Reads the formulas that evidence is written in: `power_name = 'Flight'`, `DIVIDE(COUNT(a), COUNT(b)) * 100`.

They are nearly SQL: arithmetic may be spelled as functions, columns need no table, names of several words and
texts no quotes, and COUNT of a condition counts the rows that meet it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tasks.backbone.offline.prompt.schema import PromptSchema
from tasks.backbone.offline.query import BacktickedSQLite, Expression, columns_of, plain, text_literal
from tasks.records import ColumnName

Resolve = Callable[[tuple[ColumnName, ...]], ColumnName]
"""Chooses among columns of one name."""

_ARITHMETIC: dict[str, type[exp.Binary]] = {
    "DIVIDE": exp.Div, "MULTIPLY": exp.Mul, "SUBTRACT": exp.Sub, "ADD": exp.Add,
}  # fmt: skip
_CONDITIONS = (exp.Predicate, exp.Connector, exp.Not)
_BARE_TEXT = re.compile(r"(?<=[=>])\s*([A-Za-z]\w*(?: \w+)+?)\s*(?=$|[),]|\band\b|\bor\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula that could be read.

    Attributes:
        is_condition: whether it is true or false of a row.
        aggregate: its outermost aggregate function, or "FORMULA" for arithmetic over aggregates, "" without any.
    """

    expression: Expression
    is_condition: bool
    aggregate: str
    columns: tuple[ColumnName, ...]


def read_formula(text: str, schema: PromptSchema, resolve: Resolve) -> Formula | None:
    """Read a formula; None when it is none, or names something that the schema does not have."""
    try:
        select = sqlglot.parse_one(
            "SELECT " + _with_quotes(text[:600].strip(" ,."), schema), dialect=BacktickedSQLite
        )
        (tree,) = select.expressions
        tree = tree.transform(lambda node: _with_columns(node, schema, resolve))
        for node in reversed(list(tree.bfs())):
            changed = _with_operators(node)
            tree = changed if node is tree else tree
            node.replace(exp.paren(changed) if isinstance(node, exp.Anonymous) else changed)
    except (SqlglotError, RecursionError, LookupError, ValueError):
        return None
    columns = columns_of(tree)
    if (
        not isinstance(tree, exp.Condition)
        or tree.find(exp.Query, exp.Alias)
        or select.find(exp.From)
        or not columns
    ):
        return None
    whole = tree.key.upper() if isinstance(tree, exp.AggFunc) else "FORMULA"
    aggregate = whole if tree.find(exp.AggFunc) else ""
    is_condition = isinstance(tree.unnest(), _CONDITIONS) and not aggregate
    return Formula(tree, is_condition, aggregate, tuple(dict.fromkeys(columns)))


def _with_quotes(text: str, schema: PromptSchema) -> str:
    odd = (column.name.column for column in schema.columns if re.search(r"\W|_", column.name.column))
    names = {name.replace("_", " ").lower(): f"`{name}`" for name in odd}
    for words in sorted((words for words in names if words in text.lower()), key=len, reverse=True):
        pattern = rf"(?<![\w`\"']){re.escape(words)}(?![\w`\"'])"
        text = re.sub(pattern, lambda found: names[found[0].lower()], text, flags=re.IGNORECASE)
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


def _with_operators(node: Expression) -> Expression:
    if isinstance(node, exp.Anonymous):
        left, right = node.expressions[:2]
        return _with_operators(_ARITHMETIC[node.name.upper()](this=left, expression=right))
    if isinstance(node, exp.Count) and isinstance(node.this, _CONDITIONS):
        return exp.Sum(this=node.this)
    if isinstance(node, exp.Div) and not isinstance(node.this, exp.Cast):
        return exp.Div(this=exp.cast(node.this, "REAL"), expression=node.expression)
    return node

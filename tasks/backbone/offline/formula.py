"""The formulas that evidence is written in: `power_name = 'Flight'`, `DIVIDE(COUNT(a), COUNT(b)) * 100`.

They are nearly SQL: column names may be unqualified, functions of arithmetic are spelled as words, and COUNT or
SUM of a condition counts the rows that meet it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from tasks.backbone.offline.query import Expression, Query
from tasks.backbone.offline.schema import PromptSchema
from tasks.records import ColumnName

Part = str | ColumnName | Query
Resolve = Callable[[tuple[ColumnName, ...]], ColumnName]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<text>'(?:[^']|'')*')
      | (?P<name>`[^`]+`|"[^"]+"|\[[^\]]+\])
      | (?P<number>\d+(?:\.\d+)?%?)
      | (?P<operator><>|!=|>\s?=|<\s?=|=|<|>|\|\||[-+*/(),.])
      | (?P<word>[^\W\d][\w$]*)
    )""",
    re.VERBOSE,
)
_AGGREGATES = frozenset({"MAX", "MIN", "AVG", "SUM", "COUNT", "TOTAL"})
_ARITHMETIC = {"DIVIDE": "/", "MULTIPLY": "*", "SUBTRACT": "-", "ADD": "+"}
_SCALAR = frozenset({"ABS", "ROUND", "LENGTH", "LOWER", "UPPER", "STRFTIME", "SUBSTR", "CAST", "DATE", "IIF"})
_COMPARISONS = frozenset({"=", "!=", "<>", "<", ">", "<=", ">="})


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula that could be read.

    Attributes:
        expression: the formula as SQL.
        is_condition: whether it is true or false of a row.
        aggregate: outermost aggregate function, or "FORMULA" for arithmetic over aggregates, "" without any.
        columns: the columns in it; several bare ones where the formula is a list of columns.
    """

    expression: Expression
    is_condition: bool
    aggregate: str
    columns: tuple[ColumnName, ...]


class _UnreadableError(Exception):
    """The text is no formula over this schema."""


def read_formula(text: str, schema: PromptSchema, resolve: Resolve) -> Formula | None:
    """Read a formula; None when it is none, or names something that the schema does not have.

    Args:
        text: what stands behind "refers to".
        schema: whose columns may be named.
        resolve: chooses among columns of one name.
    """
    tokens = [(m.lastgroup or "", m[m.lastgroup or 0]) for m in _TOKEN.finditer(text[:600])]
    parser = _Parser(tokens, schema, resolve)
    try:
        parts = parser.disjunction()
    except _UnreadableError:
        return None
    if not parser.at_end() or not parser.columns:
        return None
    aggregate = "" if not parser.aggregates else "FORMULA" if parser.arithmetic else parser.aggregates[0]
    is_condition = parser.compared and not parser.aggregates
    return Formula(Expression(tuple(parts)), is_condition, aggregate, tuple(dict.fromkeys(parser.columns)))


class _Parser:
    """Recursive descent over the tokens of one formula."""

    def __init__(self, tokens: list[tuple[str, str]], schema: PromptSchema, resolve: Resolve) -> None:
        self.tokens = tokens
        self.schema = schema
        self.resolve = resolve
        self.position = 0
        self.depth = 0
        self.columns: list[ColumnName] = []
        self.aggregates: list[str] = []
        self.arithmetic = False
        self.compared = False

    def at_end(self) -> bool:
        """Whether every token has been read."""
        return self.position >= len(self.tokens)

    def disjunction(self) -> list[Part]:
        """Read conditions joined by AND and OR."""
        self.depth += 1
        if self.depth > 30:
            raise _UnreadableError
        parts = self.comparison()
        while self.keyword() in ("AND", "OR"):
            parts = [*parts, f" {self.keyword()} "]
            self.position += 1
            parts.extend(self.comparison())
        self.depth -= 1
        return parts

    def comparison(self) -> list[Part]:
        """Read one comparison, or what could be one side of it."""
        left = self.sum()
        kind, text = self.peek()
        operator = text.replace(" ", "")
        if kind == "operator" and operator in _COMPARISONS:
            self.position += 1
            self.compared = True
            return [*left, f" {operator} ", *self.right()]
        word = self.keyword()
        if word == "IS":
            self.position += 1
            negated = self.take("NOT")
            if not self.take("NULL"):
                raise _UnreadableError
            self.compared = True
            return [*left, " IS NOT NULL" if negated else " IS NULL"]
        negated = self.take("NOT")
        word = self.keyword()
        lead = " NOT " if negated else " "
        if word == "LIKE":
            self.position += 1
            self.compared = True
            return [*left, f"{lead}LIKE ", *self.right()]
        if word == "BETWEEN":
            self.position += 1
            low = self.sum()
            if not self.take("AND"):
                raise _UnreadableError
            self.compared = True
            return [*left, f"{lead}BETWEEN ", *low, " AND ", *self.sum()]
        if word == "IN":
            self.position += 1
            self.compared = True
            return [*left, f"{lead}IN ", *self.atom()]
        if negated:
            raise _UnreadableError
        return left

    def right(self) -> list[Part]:
        """Read the right side of a comparison: a sum, or bare words, which are taken for text."""
        start, columns = self.position, len(self.columns)
        try:
            return self.sum()
        except _UnreadableError:
            del self.columns[columns:]
            self.position = start
        words = []
        while self.peek()[0] in ("word", "number", "name") and self.keyword() not in ("AND", "OR"):
            words.append(self.peek()[1].strip('`"'))
            self.position += 1
        if not words:
            raise _UnreadableError
        return ["'" + " ".join(words).replace("'", "''") + "'"]

    def sum(self) -> list[Part]:
        """Read terms joined by arithmetic, or columns joined by commas at the outermost level."""
        parts = self.atom()
        while self.peek()[0] == "operator" and self.peek()[1] in ("+", "-", "*", "/", "||"):
            self.arithmetic = True
            operator = self.peek()[1]
            parts = ["CAST(", *parts, " AS REAL)"] if operator == "/" else parts
            self.position += 1
            parts = [*parts, f" {operator} ", *self.atom()]
        return parts

    def atom(self) -> list[Part]:
        """Read a literal, a column, a function or something in parentheses."""
        kind, text = self.peek()
        if kind in ("text", "number"):
            self.position += 1
            return [text.rstrip("%")]
        if (kind, text) == ("operator", "("):
            self.position += 1
            inner = self.disjunction()
            while self.peek() == ("operator", ","):
                self.position += 1
                inner = [*inner, ", ", *self.disjunction()]
            self.expect(")")
            return ["(", *inner, ")"]
        if (kind, text) == ("operator", "*"):
            self.position += 1
            return ["*"]
        if kind == "word" and self.follows("("):
            return self.function(text.upper())
        if kind in ("word", "name"):
            return [self.column()]
        raise _UnreadableError

    def function(self, name: str) -> list[Part]:
        """Read a call; functions of arithmetic become operators."""
        if name not in _AGGREGATES | _SCALAR | set(_ARITHMETIC):
            raise _UnreadableError
        self.position += 2
        before = self.compared
        if name in _AGGREGATES:
            self.aggregates.append(name)
        distinct = self.take("DISTINCT")
        arguments = [self.disjunction()]
        while self.peek() == ("operator", ","):
            self.position += 1
            arguments.append(self.disjunction())
        self.expect(")")
        if name in _ARITHMETIC and len(arguments) == 2:
            self.arithmetic = True
            left, right = arguments
            left = ["CAST(", *left, " AS REAL)"] if name == "DIVIDE" else left
            return ["(", *left, f" {_ARITHMETIC[name]} ", *right, ")"]
        is_test = self.compared and not before
        self.compared = before
        if name == "COUNT" and is_test:
            name = "SUM"
        parts: list[Part] = [f"{name}(" + ("DISTINCT " if distinct else "")]
        for index, argument in enumerate(arguments):
            parts.extend((", ", *argument) if index else argument)
        return [*parts, ")"]

    def column(self) -> ColumnName:
        """Read a column's name: quoted, bare, behind its table, or of several words."""
        first = self.peek()[1].strip('`"[]')
        if self.follows(".") and self.position + 2 < len(self.tokens):
            second = self.tokens[self.position + 2][1].strip('`"[]')
            if found := self.schema.find(second, first) or self.schema.find(second):
                self.position += 3
                return self.chosen(found)
        words = [first]
        reach = self.position + 1
        while reach < len(self.tokens) and self.tokens[reach][0] == "word" and len(words) < 5:
            words.append(self.tokens[reach][1])
            reach += 1
        for count in range(len(words), 0, -1):
            for glue in (" ", "_", ""):
                if found := self.schema.find(glue.join(words[:count])):
                    self.position += count
                    return self.chosen(found)
        raise _UnreadableError

    def chosen(self, found: tuple[ColumnName, ...]) -> ColumnName:
        """Settle on one of the columns of a name."""
        column = found[0] if len(found) == 1 else self.resolve(found)
        self.columns.append(column)
        return column

    def peek(self) -> tuple[str, str]:
        """Return the next token, ("", "") at the end."""
        return self.tokens[self.position] if self.position < len(self.tokens) else ("", "")

    def keyword(self) -> str:
        """Return the next token as a keyword, "" if it is no word."""
        kind, text = self.peek()
        return text.upper() if kind == "word" else ""

    def take(self, keyword: str) -> bool:
        """Pass over a keyword, if it is next."""
        if self.keyword() != keyword:
            return False
        self.position += 1
        return True

    def follows(self, operator: str) -> bool:
        """Whether an operator stands behind the next token."""
        return self.position + 1 < len(self.tokens) and self.tokens[self.position + 1] == (
            "operator",
            operator,
        )

    def expect(self, operator: str) -> None:
        """Pass over an operator that must be next."""
        if self.peek() != ("operator", operator):
            raise _UnreadableError
        self.position += 1

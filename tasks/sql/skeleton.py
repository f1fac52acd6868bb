"""The skeleton of a query: its structure without names and values (DAC, section 3.3).

Built from the parse tree, never by replacing text. Lists keep their length, because a superfluous column is a
difference; only lists of values in parentheses become one. Deviations from the released code: IS NULL and IS NOT NULL
stay apart, and no word is replaced within another. What means the same is written in one way: `x NOT IN` and
`NOT x IN`, an order without direction and ASC, `!=` and `<>`, parentheses around a single term.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tasks.sql.parsing import exp, first_line, parse, tokens, write

SLOT = "_"
_NEGATED = "__not"
"""Marks the left side of a negated IN, BETWEEN or LIKE until the text is put together."""


@dataclass(frozen=True, slots=True)
class SkeletonReading:
    """The skeleton of a SQL, or why it has none."""

    text: str | None  # the skeleton; None where the SQL has none
    reason: str = ""  # why it has none, "" when it has


def skeleton(sql: str, dialect: str) -> str | None:
    """Return the skeleton in lower case, tokens parted by blanks; None where the SQL cannot be parsed.

    Names, qualified names, strings and numbers become `_`, and so does a list of values in parentheses; aliases and
    join conditions vanish; every kind of join is `join`.

    >>> skeleton("SELECT T1.a, T1.b FROM t AS T1 LEFT JOIN u ON T1.id = u.id WHERE c IN (1, 2) LIMIT 1", "sqlite")
    'select _ , _ from _ join _ where _ in ( _ ) limit _'
    """
    return read_skeleton(sql, dialect).text


@lru_cache(maxsize=4096)
def read_skeleton(sql: str, dialect: str) -> SkeletonReading:
    """Return the skeleton of a SQL, or why it has none; never raises.

    >>> read_skeleton("DROP TABLE t", "sqlite")
    SkeletonReading(text=None, reason='not a query: drop')
    """
    from sqlglot.errors import SqlglotError

    parsed = parse(sql, dialect)
    if parsed.tree is None:
        return SkeletonReading(None, parsed.reason)
    if not isinstance(parsed.tree, exp.Query):
        return SkeletonReading(None, f"not a query: {parsed.tree.key}")
    if isinstance(parsed.tree, exp.Select) and not parsed.tree.expressions:
        return SkeletonReading(None, "it selects nothing")
    try:
        tree = _with_slots(parsed.tree)
        text = write(tree, dialect, comments=False, normalize_functions="lower", copy=False)
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError) as error:
        return SkeletonReading(None, f"{type(error).__name__}: {first_line(error)}")
    sql_tokens = tokens(text, dialect)
    if not sql_tokens:
        return SkeletonReading(None, "its skeleton cannot be read")
    words = [word for token in sql_tokens for word in token.text.lower().split()]
    return SkeletonReading(" ".join(_normalized(words)))


def skeleton_length(text: str) -> int:
    """Return the length of a skeleton in tokens.

    >>> skeleton_length("select _ from _")
    4
    """
    return len(text.split())


def _with_slots(tree: "exp.Expr") -> "exp.Expr":
    """Return a query with slots in place of names and values, without aliases; a list of values has one slot."""
    tree = tree.copy()
    for node in list(tree.find_all(exp.In, exp.Tuple, exp.Values, exp.Alias)):
        if isinstance(node, exp.Alias):
            node.replace(node.this)
        elif isinstance(node, exp.Values) or all(_is_value(item) for item in node.expressions):
            node.set("expressions", node.expressions[:1])  # one value for all
    with_slots = tree.transform(_slot_for, copy=False)
    assert with_slots is not None, "a query is more than an alias"
    return with_slots.transform(_spelled_out, copy=False)


def _is_value(node: "exp.Expr") -> bool:
    inner = node.this if isinstance(node, exp.Neg | exp.Paren) else node
    return isinstance(inner, exp.Literal | exp.Boolean | exp.Null)


def _slot_for(node: "exp.Expr") -> "exp.Expr | None":
    """Return a slot for a name or value, None for the alias of a table, and another node in its plainest form."""
    slot = exp.to_identifier(SLOT)
    if isinstance(node, exp.TableAlias):
        return exp.TableAlias(this=slot) if isinstance(node.parent, exp.CTE) else None
    if isinstance(node, exp.Table):
        return exp.Table(this=slot)
    if isinstance(node, exp.Column):
        return exp.Star() if isinstance(node.this, exp.Star) else exp.Column(this=slot)
    values = (exp.Literal, exp.Boolean, exp.Placeholder, exp.Parameter, exp.HexString, exp.JSONPath, exp.Var)
    if isinstance(node, values) or (isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal)):
        return exp.Column(this=slot)
    if isinstance(node, exp.Null) and not isinstance(node.parent, exp.Is):
        return exp.Column(this=slot)
    if isinstance(node, exp.Identifier) and isinstance(node.parent, exp.Window):
        return slot
    if isinstance(node, exp.Join):
        for name in ("on", "using", "side", "kind", "method"):
            node.set(name, None)
        node.set("kind", "JOIN_")  # a join without condition and kind would be written as a comma
    if isinstance(node, exp.Ordered) and node.args.get("desc") is None:
        node.set("desc", False)  # as after a written ASC
    return node


def _spelled_out(node: "exp.Expr") -> "exp.Expr":
    """Remove parentheses around a single term, and write NOT as in `x NOT IN ...`."""
    while (
        isinstance(node, exp.Paren)
        and isinstance(node.this, exp.Column | exp.Func | exp.Paren | exp.Subquery)
        and not isinstance(node.this, exp.Connector)
    ):
        node = node.this
    if node.args.get("negate"):
        # newer versions of sqlglot keep the NOT of some operators in themselves
        node.set("negate", None)
        return _negated(node)
    if isinstance(node, exp.Not):
        return _negated(node.this)
    return node


def _negated(node: "exp.Expr") -> "exp.Expr":
    """Return NOT of a predicate as `x NOT IN ...`: sqlglot has no such node, so the operand carries a mark."""
    inner = node
    while isinstance(inner, exp.Paren | exp.Escape):
        inner = inner.this
    if isinstance(inner, exp.Is):
        return exp.Is(this=inner.this.copy(), expression=exp.Not(this=inner.expression.copy()))
    if not isinstance(inner, exp.In | exp.Between | exp.Like | exp.ILike | exp.Glob | exp.RegexpLike):
        return exp.Not(this=node.copy())
    result = inner.copy()
    mark = exp.Column(this=exp.to_identifier(_NEGATED))
    result.set("this", exp.DPipe(this=result.this.copy(), expression=mark))
    return result


def _normalized(words: Sequence[str]) -> list[str]:
    """Write every join as "join", and a negated operator with its "not" before it."""
    result: list[str] = []
    for word in words:
        text = "join" if word in ("join_", "join") else word
        if text == "join" and result and result[-1] == "join":
            continue
        if text == _NEGATED:
            result[-1] = "not"  # instead of the || that `_negated` puts before the mark
            continue
        result.append(text)
    return result

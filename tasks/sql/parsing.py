"""Parses and tokenizes SQL with sqlglot; on failure, returns a reason or None instead of raising.

sqlglot has no deadline and runs in the process of the evaluation, so SQL beyond the limits below is not parsed. It is
executed all the same: the sandbox has limits of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

LONGEST_SQL = 10_000
"""Characters of a SQL that is parsed; the longest gold of BIRD has 1,446, of Spider 577."""
MOST_TOKENS = 2_500
"""Tokens of a SQL that is parsed. Resolving names takes time with the square of the tables named."""
DEEPEST_NESTING = 30
"""Parentheses, brackets and CASE within each other; the golds have 7. Above it, sqlglot recurses and backtracks."""
MOST_BARE_JOINS = 8
"""Joins without ON or USING, which sqlglot parses in time that doubles with each: sixteen take more than a second."""
DEEPEST_TREE = 150
"""Levels of a tree, one per operand of a chain such as `a + b + c`. Walks from each node upwards take their product."""
LONGEST_TOKENIZED = 50_000
"""Characters of a SQL that is split into tokens, which takes time in proportion to its length."""

_OPENING = frozenset({"L_PAREN", "L_BRACKET", "L_BRACE", "CASE"})
_CLOSING = frozenset({"R_PAREN", "R_BRACKET", "R_BRACE", "END"})
_UNCONDITIONAL = frozenset({"CROSS", "NATURAL"})
_JOIN_WORDS = frozenset({"LEFT", "RIGHT", "FULL", "INNER", "OUTER"})


@dataclass(frozen=True, slots=True)
class Parsed:
    """A SQL as a tree."""

    # the first statement if it is a query or another statement that sqlglot knows; None otherwise. Shared between
    # callers: never change it, copy it first.
    tree: "exp.Expression | None"
    reason: str = ""  # why there is no tree, "" when there is one


@lru_cache(maxsize=4096)
def parse(sql: str, dialect: str) -> Parsed:
    """Parse the first statement of a SQL.

    >>> parse("SELECT a FROM t", "sqlite").tree.key
    'select'
    >>> parse("SELECT FROM WHERE", "sqlite").tree is None
    True
    """
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError

    if len(sql) > LONGEST_SQL:
        return Parsed(None, f"longer than {LONGEST_SQL:,} characters")
    try:
        reader = Dialect.get_or_raise(dialect)
        read = reader.tokenize(sql)
        reason = _beyond_limits(read)
        if reason:
            return Parsed(None, reason)
        statements = [s for s in reader.parser().parse(read, sql) if isinstance(s, exp.Expression)]
    except SqlglotError as error:
        return Parsed(None, _first_line(error))
    except RecursionError:
        return Parsed(None, "nested too deeply")
    except (ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        # errors within sqlglot on malformed input: the SQL cannot be parsed
        return Parsed(None, f"{type(error).__name__}: {_first_line(error)}")
    if not statements:
        return Parsed(None, "no statement")
    if isinstance(statements[0], exp.Command):
        return Parsed(None, f"not a query: {statements[0].name.upper()}")
    if _deeper_than(statements[0], DEEPEST_TREE):
        return Parsed(None, f"an expression of more than {DEEPEST_TREE} levels")
    return Parsed(statements[0])


def tokens(sql: str, dialect: str) -> "tuple[Token, ...] | None":
    """Return the tokens of a SQL, comments left out; None where it cannot be read (an open quote, say).

    A SQL of more than LONGEST_TOKENIZED characters is not read either.

    >>> [token.text for token in tokens("SELECT `a b` -- why", "sqlite")]
    ['SELECT', 'a b']
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    if len(sql) > LONGEST_TOKENIZED:
        return None
    try:
        return tuple(sqlglot.tokenize(sql, read=dialect))
    except (SqlglotError, ValueError, IndexError):
        return None


def remarks(sql: str | None) -> tuple[str, ...]:
    """Say what a reader of the record would not see in a SQL: that its length or a NUL character changes its treatment.

    >>> remarks("SELECT a" + chr(0))
    ('the SQL holds a NUL character: it is kept as it is, and cannot be executed',)
    """
    if sql is None:
        return ()
    found = []
    if "\x00" in sql:
        found.append("the SQL holds a NUL character: it is kept as it is, and cannot be executed")
    if len(sql) > LONGEST_SQL:
        found.append(f"the SQL is longer than {LONGEST_SQL:,} characters: it is executed, and not parsed")
    return tuple(found)


def _beyond_limits(read: "Sequence[Token]") -> str:
    """Return which limit the tokens of a SQL exceed; "" where they exceed none."""
    if len(read) > MOST_TOKENS:
        return f"longer than {MOST_TOKENS:,} tokens"
    depth = bare_joins = 0
    for index, token in enumerate(read):
        kind = token.token_type.name
        if kind in _OPENING:
            depth += 1
        elif kind in _CLOSING:
            depth = max(depth - 1, 0)
        elif kind == "JOIN":
            bare_joins += not _is_unconditional(read, index)
        elif kind in ("ON", "USING"):
            bare_joins = max(bare_joins - 1, 0)
        if depth > DEEPEST_NESTING:
            return f"nested more than {DEEPEST_NESTING} levels deep"
        if bare_joins > MOST_BARE_JOINS:
            return f"more than {MOST_BARE_JOINS} joins without a condition"
    return ""


def _is_unconditional(read: "Sequence[Token]", join: int) -> bool:
    """Whether a join is written as CROSS or NATURAL and so has no condition."""
    before = join - 1
    while before > 0 and read[before].token_type.name in _JOIN_WORDS:
        before -= 1
    return before >= 0 and read[before].token_type.name in _UNCONDITIONAL


def _deeper_than(tree: "exp.Expression", levels: int) -> bool:
    level: list[exp.Expr] = [tree]
    for _ in range(levels):
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return False
    return True


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]


_SAME = {"<>": "!=", "==": "="}


def same_query(one: str, other: str, dialect: str) -> bool:
    """Return whether two SQLs are the same query.

    White space, comments, a last `;`, backticks and the case of names and words may differ. What stands in single or
    double quotes counts as it is: SQLite reads "name" as a text if no column has that name. SQLs that cannot be read
    are the same only if their texts are equal.

    >>> same_query("SELECT a FROM t WHERE b = 'B';", "select A from  t where b='B' -- why", "sqlite")
    True
    >>> same_query("SELECT a FROM t WHERE b = 'B'", "SELECT a FROM t WHERE b = 'b'", "sqlite")
    False
    """
    if one == other:
        return True
    words = _words(one, dialect)
    return words is not None and words == _words(other, dialect)


def _words(sql: str, dialect: str) -> list[str] | None:
    """Return the tokens of a SQL, those in quotes with a quote in front; None where it cannot be read."""
    read = tokens(sql, dialect)
    if read is None:
        return None
    words = []
    for token in read:
        exact = token.token_type.name == "STRING" or sql[token.start : token.start + 1] == '"'
        text = token.text if exact else token.text.lower()
        words.append(f"'{text}" if exact else _SAME.get(text, text))
    while words and words[-1] == ";":
        words.pop()
    return words


@lru_cache(maxsize=65536)
def normalise_sql(sql: str, dialect: str) -> str:
    """Return a SQL token by token: lower case outside strings, one kind of quotes, no comment, no last `;`.

    The wording stays: aliases, the order of conditions and redundant parentheses still tell two SQLs apart.
    A SQL that cannot be read is only lower-cased and single-spaced.

    >>> normalise_sql("select  T1.`Name` FROM t AS t1 where a<>'B';", "sqlite")
    "select t1 . name from t as t1 where a != 'B'"
    """
    read = tokens(sql, dialect)
    if read is None:
        return " ".join(sql.lower().split()).rstrip("; ")
    words = []
    for token in read:
        if token.token_type.name == "STRING":
            words.append("'" + token.text.replace("'", "''") + "'")
        else:
            text = token.text.lower()
            words.append(_SAME.get(text, " ".join(text.split())))
    while words and words[-1] == ";":
        words.pop()
    return " ".join(words)

"""SQL text to sqlglot's tree or tokens; what cannot be read comes back as a reason, never as an exception."""

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token


@dataclass(frozen=True, slots=True)
class Parsed:
    """A SQL as a tree.

    Attributes:
        tree: the first statement if it is a query or another statement that sqlglot knows; None otherwise.
            Shared between callers: never change it, copy it first.
        reason: why there is no tree, "" when there is one.
    """

    tree: "exp.Expression | None"
    reason: str = ""


@lru_cache(maxsize=4096)
def parse(sql: str, dialect: str) -> Parsed:
    """Parse the first statement of a SQL.

    >>> parse("SELECT a FROM t", "sqlite").tree.key
    'select'
    >>> parse("SELECT FROM WHERE", "sqlite").tree is None
    True
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        statements = [s for s in sqlglot.parse(sql, read=dialect) if isinstance(s, exp.Expression)]
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
    return Parsed(statements[0])


def tokens(sql: str, dialect: str) -> "tuple[Token, ...] | None":
    """Return the tokens of a SQL, comments left out; None where it cannot be read (an open quote, say).

    >>> [token.text for token in tokens("SELECT `a b` -- why", "sqlite")]
    ['SELECT', 'a b']
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        return tuple(sqlglot.tokenize(sql, read=dialect))
    except (SqlglotError, ValueError, IndexError):
        return None


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0]

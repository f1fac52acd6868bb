"""Parses and tokenizes SQL with sqlglot; on failure, returns a reason or None instead of raising.

sqlglot has no deadline, and may take hours for a short text: `DATE(DATE(...('now')...))` of 16 levels takes seconds,
and each further level twice the time. SQL beyond the limits below is not parsed, and only simple SQL is parsed in the
process of the evaluation: anything else in one of the sandbox. SQL that is not parsed is executed all the same.
"""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tasks.core.errors import DatabaseUnavailableError, DataError
from tasks.core.lazy import LazyModule
from tasks.database.dialects import SQLITE
from tasks.database.location import Location

if TYPE_CHECKING:
    from sqlglot import exp as exp
    from sqlglot.tokenizer_core import Token

    from tasks.database.sandbox.session import SqlSession
else:
    exp = LazyModule("sqlglot.expressions")

MAX_SQL_CHARACTERS = 10_000
"""Characters of a SQL that is parsed; the longest gold of BIRD has 1,446, of Spider 577."""
MAX_TOKENS = 2_500
"""Tokens of a SQL that is parsed. Resolving names takes time with the square of the tables named."""
MAX_NESTING = 30
"""Parentheses, brackets and CASE within each other; the golds have 7. Above it, sqlglot recurses and backtracks."""
MAX_BARE_JOINS = 8
"""Joins without ON or USING, which sqlglot parses in time that doubles with each: sixteen take more than a second."""
MAX_TREE_LEVELS = 150
"""Levels of a tree, one per operand of a chain such as `a + b + c`. Walks from each node upwards take their product."""
SIMPLE_NESTING, SIMPLE_TOKENS, SIMPLE_BARE_JOINS = 6, 400, 4
"""Limits of SQL that is parsed in this process, within 0.2 s; 4 of 2,568 golds of BIRD and Spider are beyond them. Each
further level of some functions, such as DATE, doubles the time."""
MAX_WRITTEN_FUNCTIONS = 8
"""Maximum depth of nested functions in generated SQL; gold SQL has up to 6. sqlglot generates the arguments of some
functions, such as GREATEST, twice, so that each level doubles the time."""
MAX_TOKENIZED_CHARACTERS = 50_000
"""Characters of a SQL that is split into tokens, which takes time in proportion to its length."""

PARSE_CPU_S = 2.0
"""Processor seconds of one text in a process of the sandbox, so that a busy machine changes no verdict."""
OVER = f"its parsing takes more than {PARSE_CPU_S:g} s"

_NO_DATABASE = Location(SQLITE, "")
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
    if len(sql) > MAX_SQL_CHARACTERS:
        return Parsed(None, f"longer than {MAX_SQL_CHARACTERS:,} characters")
    sql_tokens = tokens(sql, dialect)
    if sql_tokens is not None:
        nesting, bare_joins = _count_nesting_and_bare_joins(sql_tokens)
        if len(sql_tokens) > MAX_TOKENS:
            return Parsed(None, f"longer than {MAX_TOKENS:,} tokens")
        if nesting > MAX_NESTING:
            return Parsed(None, f"nested more than {MAX_NESTING} levels deep")
        if bare_joins > MAX_BARE_JOINS:
            return Parsed(None, f"more than {MAX_BARE_JOINS} joins without a condition")
        if len(sql_tokens) > SIMPLE_TOKENS or nesting > SIMPLE_NESTING or bare_joins > SIMPLE_BARE_JOINS:
            return _parse_in_sandbox(sql, dialect)
    return _parse_here(sql, dialect, sql_tokens)


class _OverrunError(BaseException):
    """The processor time of a text is used up; no `except Exception` within sqlglot may catch it."""


def _parse_in_sandbox(sql: str, dialect: str) -> Parsed:
    from tasks.database.sandbox.runner import READING, in_sandbox
    from tasks.database.sandbox.workers import WorkerLost

    try:
        return in_sandbox(parse_in_worker, _NO_DATABASE, sql, dialect)
    except DataError as error:
        lost = error.__cause__
        if isinstance(lost, WorkerLost) and lost.status == "too_large":
            return Parsed(None, f"its parsing takes more than {READING.memory_mb} MiB of memory")
        return Parsed(None, OVER)
    except DatabaseUnavailableError:
        return Parsed(None, "the process that parsed it was killed repeatedly")


def parse_in_worker(session: "SqlSession", sql: str, dialect: str) -> Parsed:
    """Inside a worker: parse a SQL within its processor time, after which a signal stops the parser."""

    def overrun(*signaled: Any) -> None:
        raise _OverrunError

    signal.signal(signal.SIGVTALRM, overrun)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, PARSE_CPU_S)
        try:
            return _parse_here(sql, dialect)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _OverrunError:  # around both, because the signal may come while the timer is stopped
        return Parsed(None, OVER)


def _parse_here(sql: str, dialect: str, sql_tokens: "Sequence[Token] | None" = None) -> Parsed:
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError

    try:
        reader = Dialect.get_or_raise(dialect)
        parsed = reader.parser().parse(list(sql_tokens or reader.tokenize(sql)), sql)
        statements = [statement for statement in parsed if isinstance(statement, exp.Expression)]
    except SqlglotError as error:
        return Parsed(None, first_line(error))
    except RecursionError:
        return Parsed(None, "nested too deeply")
    except (ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        # errors within sqlglot on malformed input: the SQL cannot be parsed
        return Parsed(None, f"{type(error).__name__}: {first_line(error)}")
    if not statements:
        return Parsed(None, "no statement")
    if isinstance(statements[0], exp.Command):
        return Parsed(None, f"not a query: {statements[0].name.upper()}")
    if _is_too_deep(statements[0]):
        return Parsed(None, f"an expression of more than {MAX_TREE_LEVELS} levels")
    return Parsed(statements[0])


def write(tree: "exp.Expr", dialect: str, **options: Any) -> str:
    """Generate the SQL of a tree; "" where its functions are nested too deeply."""
    depths: dict[int, int] = {}
    for node in tree.walk():
        is_function = isinstance(node, exp.Func) and not isinstance(node, exp.And | exp.Or | exp.Case)
        depths[id(node)] = depths.get(id(node.parent), 0) + is_function
    return tree.sql(dialect, **options) if max(depths.values()) <= MAX_WRITTEN_FUNCTIONS else ""


def tokens(sql: str, dialect: str) -> "tuple[Token, ...] | None":
    """Return the tokens of a SQL, comments left out; None where it cannot be read (an open quote, say).

    A SQL of more than MAX_TOKENIZED_CHARACTERS characters is not read either.

    >>> [token.text for token in tokens("SELECT `a b` -- why", "sqlite")]
    ['SELECT', 'a b']
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    if len(sql) > MAX_TOKENIZED_CHARACTERS:
        return None
    try:
        return tuple(sqlglot.tokenize(sql, read=dialect))
    except (SqlglotError, ValueError, IndexError):
        return None


def remarks(sql: str | None) -> tuple[str, ...]:
    """Say what a reader of the record would not see in a SQL: that its length or a NUL changes its treatment."""
    if sql is None:
        return ()
    sentences = []
    if "\x00" in sql:
        sentences.append("the SQL holds a NUL character: it is kept as it is, and cannot be executed")
    if len(sql) > MAX_SQL_CHARACTERS:
        sentences.append(
            f"the SQL is longer than {MAX_SQL_CHARACTERS:,} characters: it is executed, and not parsed"
        )
    return tuple(sentences)


def _count_nesting_and_bare_joins(sql_tokens: "Sequence[Token]") -> tuple[int, int]:
    """Return how deep parentheses, brackets and CASE are nested, and how many joins at most wait for ON or USING."""
    depth = nesting = bare_joins = most_bare_joins = 0
    for index, token in enumerate(sql_tokens):
        kind = token.token_type.name
        if kind in _OPENING:
            depth += 1
        elif kind in _CLOSING:
            depth = max(depth - 1, 0)
        elif kind == "JOIN" and not _is_unconditional(sql_tokens, index):
            bare_joins += 1
        elif kind in ("ON", "USING"):
            bare_joins = max(bare_joins - 1, 0)
        nesting = max(nesting, depth)
        most_bare_joins = max(most_bare_joins, bare_joins)
    return nesting, most_bare_joins


def _is_unconditional(sql_tokens: "Sequence[Token]", join: int) -> bool:
    """Whether a join is written as CROSS or NATURAL and so has no condition."""
    position = join - 1
    while position > 0 and sql_tokens[position].token_type.name in _JOIN_WORDS:
        position -= 1
    return position >= 0 and sql_tokens[position].token_type.name in _UNCONDITIONAL


def _is_too_deep(tree: "exp.Expression") -> bool:
    level: list[exp.Expr] = [tree]
    for _ in range(MAX_TREE_LEVELS):
        level = [child for node in level for child in node.iter_expressions()]
        if not level:
            return False
    return True


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().split("\n")[0]

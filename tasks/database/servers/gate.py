"""The check of SQL for a server before it is sent: one query, which calls no function that reaches beyond the data.

It reads tokens, not text, and knows what a name means from the server (PostgreSQL) or from a list of the functions that
are allowed (MySQL). The role, the read-only transaction and the protocol protect the data, too.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tasks.database.servers.mysql_names import FUNCTIONS, METADATA, SYNTAX
from tasks.database.servers.tokens import ONLY_QUERIES, RefusedError, Token, mysql_tokens, postgresql_tokens

QUERIES = frozenset({"select", "with", "values", "table", "("})


@dataclass(frozen=True, slots=True)
class PostgresqlGate:
    """The check of PostgreSQL's SQL."""

    functions: Collection[str]  # names of functions that are refused
    relations: Collection[str]  # names of tables and views that are refused

    def check(self, sql: str) -> bool:
        """Return whether there is a statement at all.

        Raises:
            RefusedError: it is no query, or has a name that is refused.
        """
        tokens = _query(postgresql_tokens(sql))
        for token, following in _pairs(tokens):
            if token.is_name and following == "(" and token.text in self.functions:
                raise RefusedError(ONLY_QUERIES.format(f"the function {token.text}"))
            if token.is_name and token.text in self.relations:
                raise RefusedError(ONLY_QUERIES.format(f"reading {token.text}"))
        return bool(tokens)


@dataclass(frozen=True, slots=True)
class MysqlGate:
    """The check of MySQL's and MariaDB's SQL."""

    escapes: bool = True  # as in `mysql_tokens`
    ansi: bool = False  # as in `mysql_tokens`

    def check(self, sql: str) -> bool:
        """Return whether there is a statement at all.

        Raises:
            RefusedError: it is no query, writes, locks, or has a name that is refused.
        """
        tokens = _query(mysql_tokens(sql, escapes=self.escapes, ansi=self.ansi))
        for place, (token, following) in enumerate(_pairs(tokens)):
            if refused := _refused_words(token, following) or _refused_schema(tokens, place):
                raise RefusedError(ONLY_QUERIES.format(refused))
            if token.is_name and following == "(" and not _is_allowed_before_parenthesis(tokens, place):
                raise RefusedError(
                    f"The function {token.text} does not exist, or the sandbox does not allow it."
                )
        return bool(tokens)


def _query(tokens: Iterable[Token]) -> list[Token]:
    """Return the tokens of a query without semicolons at its end; [] where there is no statement.

    Raises:
        RefusedError: there is a second statement, or the first is no query.
    """
    found = list(tokens)
    while found and found[-1] == Token("sign", ";"):
        found.pop()
    if found and found[0].text not in QUERIES:
        word = found[0].text.upper()[:30] or "a string"
        raise RefusedError(ONLY_QUERIES.format(f"a statement that begins with {word}"))
    if Token("sign", ";") in found:
        raise RefusedError("The SQL holds more than one statement; give exactly one.")
    return found


def _pairs(tokens: Sequence[Token]) -> Iterable[tuple[Token, str]]:
    """Yield each token with the text of the next one; "" where that is a string or quoted."""
    following = (token.text if token.kind in ("word", "sign") else "" for token in tokens[1:])
    return zip(tokens, [*following, ""], strict=False)


def _refused_words(token: Token, following: str) -> str:
    """Return the keywords with which a query writes or locks, "" for none; they are reserved, so no names."""
    if token.kind != "word":
        return ""
    pair = f"{token.text} {following}"
    if token.text in ("into", "procedure"):
        return pair.upper()
    locks = pair in ("for update", "for share", "lock in", "next value")
    return pair.upper() if locks else ""


def _refused_schema(tokens: Sequence[Token], place: int) -> str:
    """Return the name of a system's table at a place, "" for another; of its own schema some tables may be read."""
    token = tokens[place]
    if not token.is_name or place + 2 >= len(tokens) or tokens[place + 1] != Token("sign", "."):
        return ""
    name = tokens[place + 2].text
    if token.text in ("mysql", "performance_schema", "sys"):
        return f"reading {token.text}.{name}"
    if token.text == "information_schema" and name not in METADATA:
        return f"reading {token.text}.{name}"
    return ""


def _is_allowed_before_parenthesis(tokens: Sequence[Token], place: int) -> bool:
    """Return whether a name before a parenthesis is an allowed function, a keyword, or a new name of a table."""
    token, before = tokens[place], tokens[place - 1] if place else Token("sign", "")
    if before == Token("sign", "."):
        return False
    if token.text in FUNCTIONS or (token.kind == "word" and token.text in SYNTAX):
        return True
    # WITH name (a, b) AS (...), (SELECT ...) AS name (a, b), (SELECT ...) name (a, b)
    if before in (Token("sign", ")"), Token("word", "as"), Token("word", "with"), Token("word", "recursive")):
        return True
    return before == Token("sign", ",") and _is_followed_by_as(tokens, place + 1)


def _is_followed_by_as(tokens: Sequence[Token], place: int) -> bool:
    """Return whether the parenthesis at a place holds names only and ends before `AS (`, as in WITH."""
    for at in range(place + 1, len(tokens) - 2):
        if tokens[at] == Token("sign", "("):
            return False
        if tokens[at] == Token("sign", ")"):
            return tokens[at + 1] == Token("word", "as") and tokens[at + 2] == Token("sign", "(")
    return False

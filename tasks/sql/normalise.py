"""Normalises SQL text: two texts that differ only in spelling, quotes or white space become equal."""

from functools import lru_cache

from tasks.sql.parsing import tokens

_SAME = {"<>": "!=", "==": "="}


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

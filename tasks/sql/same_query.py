"""Whether two SQL texts are the same query, by the tokens of their dialect."""

import re
from functools import cache, lru_cache
from itertools import pairwise

from tasks.database.dialects import PLAIN_NAME, dialect_of
from tasks.sql.parsing import tokens

_BLANK = r"[ \t\n\r\f]"
_BLOCK_COMMENT = r"/\*(?![!+M])(?:(?!\*/).)*\*/"
"""A comment that no database executes (MySQL executes `/*! ... */`), without another one in it."""
_WORD = re.compile(rf"[^\W\d][\w$]*(?:{_BLANK}+[^\W\d][\w$]*)*", re.DOTALL)
"""A keyword, possibly of several words (ORDER BY), or an unquoted name."""
_WORD_SIGN = re.compile(r"""[\w$."'`\]]|[^\x00-\x7f]""")
_OPERATOR_SIGN = re.compile(r"[-+*/<>=~!@#%^&|?:]")


def same_query(first: str, second: str, dialect: str) -> bool:
    """Return whether two SQLs are the same query.

    >>> same_query("SELECT a FROM t WHERE b = 'B';", "select A from  t where b='B' -- why", "sqlite")
    True
    >>> same_query("SELECT a FROM t WHERE b = 'B'", "SELECT a FROM t WHERE b = 'b'", "sqlite")
    False
    """
    return first == second or query_key(first, dialect) == query_key(second, dialect)


@lru_cache(maxsize=65536)
def query_key(sql: str, dialect: str) -> str:
    r"""Return a text that two SQLs have in common if, and only if, they count as the same query.

    Blanks between tokens, comments, one last `;`, the case of keywords and unquoted names, backticks around a name that
    needs none, and `<>` for `!=` do not count. What stands in quotes, literals, and blanks that are none in SQL (a
    no-break space) count as they are; so do names in MySQL, where tables may differ in case only. A SQL that cannot be
    read, or that databases may read otherwise than sqlglot, is the same as its own text only.

    >>> query_key("SELECT A FROM t", "sqlite") == query_key("select a\nfrom T;", "sqlite")
    True
    >>> query_key('SELECT "a" FROM t', "sqlite") == query_key("SELECT 'a' FROM t", "sqlite")
    False
    """
    words = _words(sql, dialect)
    return f"text\x1f{sql}" if words is None else "\x1f".join(words)


def _words(sql: str, dialect: str) -> list[str] | None:
    """Return the tokens of a SQL as they count; None if they may not be those that a database reads."""
    sql_tokens = tokens(sql, dialect)
    if not sql_tokens:
        return None
    blanks_between, blanks_after = _gaps(dialect_of(dialect).line_comment)
    words: list[str] = []
    end = 0
    for token, following in pairwise([*sql_tokens, None]):
        assert token is not None
        gap = sql[end : token.start]
        text = sql[token.start : token.end + 1]
        is_call = following is not None and following.text == "("  # its name keeps its backticks
        plain = text if is_call else _without_backticks(text, dialect)
        is_cased = dialect_of(dialect).cased_names and not is_call
        is_table = is_cased and plain.split()[0].lower() not in dialect_of(dialect).reserved  # or may be one
        word = plain if is_table and PLAIN_NAME.match(plain) else _word(plain)
        if word is None or not blanks_between.fullmatch(gap):
            return None
        is_joined = not gap and bool(words)  # to the token before
        if is_joined and _depends_on_blanks(sql[token.start - 1], word[0], dialect):
            words.append("")  # `12ab` is not `12 ab`: mark that there is no blank
        words.append(word)
        end = token.end + 1
    if not blanks_after.fullmatch(sql[end:]):
        return None
    return words[:-1] if words[-1] == ";" else words


@cache
def _gaps(line_comment: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what may stand between two tokens, and what may follow the last one."""
    between = re.compile(f"(?:{_BLANK}|{_BLOCK_COMMENT}|{line_comment}\n)*+", re.DOTALL)
    after = re.compile(f"(?:{_BLANK}|{_BLOCK_COMMENT}|{line_comment}\n)*+(?:{line_comment})?", re.DOTALL)
    return between, after


def _word(text: str) -> str | None:
    """Return a token in the form that is compared; None for words with blanks between them that are none in SQL."""
    if text == "<>":
        return "!="
    if not re.match(r"[^\W\d]", text) or any(quote in text for quote in "'\"`"):
        return text
    if not _WORD.fullmatch(text):
        return None
    # The lower case of bytes changes ASCII letters only, as databases do.
    folded = text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")
    return " ".join(re.split(f"{_BLANK}+", folded))


def _without_backticks(text: str, dialect: str) -> str:
    """Return a name in backticks without them if it means the same; any other token as it is."""
    name = text[1:-1]
    if not (text.startswith("`") and PLAIN_NAME.match(name)) or name.lower() in dialect_of(dialect).reserved:
        return text
    name_tokens = tokens(name, dialect)
    return name if name_tokens and [token.token_type.name for token in name_tokens] == ["VAR"] else text


def _depends_on_blanks(before: str, after: str, dialect: str) -> bool:
    """Return whether two neighbouring tokens may be read otherwise with a blank between them."""
    if after == "(":
        return not dialect_of(dialect).spaced_calls
    return any(sign.match(before) and sign.match(after) for sign in (_WORD_SIGN, _OPERATOR_SIGN))

"""Names in SQL: when they need quotes, and how a dialect writes them."""

import re

SQLITE = "sqlite"
"""sqlglot's name of SQLite's dialect, for code that reads or writes SQLite files."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

# https://www.sqlite.org/lang_keywords.html; sqlglot's list of keywords also has functions and types, which need no
# quotes, and a name that a prompt shows must stay as it is: the reply cache finds replies by the prompt
_KEYWORDS = frozenset(
    """
    abort action add after all alter always analyze and as asc attach autoincrement before begin between
    by cascade case cast check collate column commit conflict constraint create cross current
    current_date current_time current_timestamp database default deferrable deferred delete desc detach
    distinct do drop each else end escape except exclude exclusive exists explain fail filter first
    following for foreign from full generated glob group groups having if ignore immediate in index
    indexed initially inner insert instead intersect into is isnull join key last left like limit match
    materialized natural no not nothing notnull null nulls of offset on or order others outer over
    partition plan pragma preceding primary query raise range recursive references regexp reindex
    release rename replace restrict returning right rollback row rows savepoint select set table temp
    temporary then ties to transaction trigger unbounded union unique update using vacuum values view
    virtual when where window with without
    """.split()  # noqa: SIM905 - a list of 147 strings would be a page
)
_BACKTICK_DIALECTS = frozenset({SQLITE, "mysql", "bigquery", "spark", "hive", "databricks"})


def quoted(name: str, dialect: str) -> str:
    """Return a name in quotes, quotes within it doubled.

    SQLite names get backticks: in double quotes a misspelt column would silently become a string.

    >>> quoted("free meal", "sqlite")
    '`free meal`'
    >>> quoted('a"b', "postgres")
    '"a""b"'
    """
    mark = "`" if dialect in _BACKTICK_DIALECTS else '"'
    return mark + name.replace(mark, mark * 2) + mark


def quoted_if_needed(name: str, dialect: str) -> str:
    """Return a name unchanged where SQL can read it so, in quotes otherwise.

    >>> [quoted_if_needed(name, "sqlite") for name in ("name", "order", "%")]
    ['name', '`order`', '`%`']
    """
    plain = _PLAIN.match(name) and name.lower() not in _KEYWORDS
    return name if plain else quoted(name, dialect)

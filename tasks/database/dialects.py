"""SQL dialects: names, quotes and reserved words."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
SQLITE = "sqlite"
"""sqlglot's name of SQLite's dialect, for code that reads or writes SQLite files."""

# https://www.sqlite.org/lang_keywords.html; sqlglot's list of keywords also has functions and types, which need no
# quotes, and a name that a prompt shows must stay as it is: the reply cache finds replies by the prompt
_SQLITE_WORDS = """
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
"""
# pg_get_keywords(), categories R and T
_POSTGRES_WORDS = """
    all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate
    collation column concurrently constraint create cross current_catalog current_date current_role
    current_schema current_time current_timestamp current_user default deferrable desc distinct do else end
    except false fetch for foreign freeze from full grant group having ilike in initially inner intersect
    into is isnull join lateral leading left like limit localtime localtimestamp natural not notnull null
    offset on only or order outer overlaps placing primary references returning right select session_user
    similar some symmetric system_user table tablesample then to trailing true union unique user using
    variadic verbose when where window with
"""
# duckdb_keywords(), category reserved, of versions 1.2 to 2.0
_DUCKDB_WORDS = """
    all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create
    default deferrable desc describe distinct do else end except false fetch for foreign from group having in
    initially intersect into lambda lateral leading leave leaving limit not null offset on only or order pivot
    pivot_longer pivot_wider placing primary qualify references returning select show some summarize symmetric
    table then to trailing true union unique unpivot using variadic when where window with
"""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A SQL dialect."""

    name: str  # as sqlglot spells it
    title: str  # as its makers spell it
    quote: str = '"'  # the mark around a quoted name
    line_comment: str = r"--[^\n\r]*"  # pattern of a comment up to the end of its line
    spaced_calls: bool = True  # whether a built-in function may be called with a blank before its parenthesis
    cased_names: bool = False  # whether tables whose names differ in case only are different ones
    # whether a name without quotes is read in lower case, so that one with capitals needs quotes
    folds: bool = False
    # reserved words in lower case, or a function that returns them
    words: frozenset[str] | Callable[[], frozenset[str]] = frozenset()

    @property
    def reserved(self) -> frozenset[str]:
        """Words that need quotes as a name, in lower case."""
        return self.words() if callable(self.words) else self.words

    def folded(self, name: str) -> str:
        """Return the name under which SQL without quotes finds what is called so elsewhere.

        >>> [dialect_of("postgres").folded(name) for name in ("CustomerID", "Enrollment (K-12)")]
        ['customerid', 'Enrollment (K-12)']
        """
        return name.lower() if self.folds and PLAIN_NAME.match(name) else name


def dialect_of(name: str) -> Dialect:
    """Return the dialect that sqlglot calls so; one that is not known here is written as standard SQL."""
    mark = "`" if name in _BACKTICKS else '"'
    return _DIALECTS.get(name) or Dialect(name, name, mark, words=_DIALECTS["postgres"].words)


def dialect_name(dialect: str) -> str:
    """Return a dialect as its makers write it.

    >>> dialect_name("postgres")
    'PostgreSQL'
    """
    return dialect_of(dialect).title


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text in lines."""
    return frozenset(text.split())


@cache
def _mysql_words() -> frozenset[str]:
    """Return the words that MySQL 8 reserves; MariaDB reserves hardly any other."""
    from sqlglot.dialects.mysql import MySQL

    generator: Any = MySQL.Generator
    return frozenset(word.lower() for word in generator.RESERVED_KEYWORDS)


_BACKTICKS = frozenset({"bigquery", "spark", "hive", "databricks"})
_DIALECTS = {
    dialect.name: dialect
    for dialect in (
        # in double quotes a misspelt column would silently become a string
        Dialect(SQLITE, "SQLite", quote="`", words=words_of(_SQLITE_WORDS)),
        Dialect("duckdb", "DuckDB", words=words_of(_DUCKDB_WORDS)),
        Dialect("postgres", "PostgreSQL", folds=True, words=words_of(_POSTGRES_WORDS)),
        Dialect(
            "mysql",
            "MySQL",
            quote="`",
            line_comment=r"(?:--(?=[ \t\n]|\Z)|\#)[^\n\r]*",  # `1--1` is a subtraction there
            spaced_calls=False,
            cased_names=True,
            words=_mysql_words,
        ),
    )
}
NAME_OF_TITLE = {dialect.title: dialect.name for dialect in _DIALECTS.values()}
"""Names of the dialects that are known here, by their titles."""


def quoted(name: str, dialect: str) -> str:
    """Return a name in quotes, quotes within it doubled.

    >>> quoted("free meal", "sqlite")
    '`free meal`'
    >>> quoted('a"b', "postgres")
    '"a""b"'
    """
    mark = dialect_of(dialect).quote
    return mark + name.replace(mark, mark * 2) + mark


def quoted_if_needed(name: str, dialect: str) -> str:
    """Return a name unchanged where SQL can read it so, in quotes otherwise.

    >>> [quoted_if_needed(name, "sqlite") for name in ("name", "order", "%")]
    ['name', '`order`', '`%`']
    >>> [quoted_if_needed(name, "postgres") for name in ("name", "Name", "user")]
    ['name', '"Name"', '"user"']
    """
    rules = dialect_of(dialect)
    is_reserved = name.lower() in rules.reserved
    loses_case = rules.folds and name != name.lower()
    is_readable = PLAIN_NAME.match(name) and not is_reserved and not loses_case
    return name if is_readable else quoted(name, dialect)

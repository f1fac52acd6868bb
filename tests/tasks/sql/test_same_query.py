"""Whether two SQLs are the same query: by rules, and by what SQLite returns for pairs that are called the same."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.sql.same_query import same_query

SAME = {
    "case and blanks": ("SELECT  Name FROM Singer\n WHERE ID = 3", "select name from singer where id=3"),
    "keywords of two words": (
        "SELECT a FROM t GROUP   BY a ORDER\nBY a",
        "select a from t group by a order by a",
    ),
    "a call": ("SELECT count ( * ) FROM t", "SELECT COUNT(*) FROM t"),
    "comments and a last semicolon": ("SELECT a -- why\nFROM t;", "SELECT /* all */ a FROM t"),
    "backticks around a plain name": ("SELECT T.`Name` FROM `Singer` AS T", "SELECT t.name FROM singer AS t"),
    "one operator": ("SELECT a FROM t WHERE a <> 1", "SELECT a FROM t WHERE a != 1"),
    "text that cannot be read": ("SELECT 'a", "SELECT 'a"),
}
DIFFERENT = {
    "a text": ("SELECT a FROM t WHERE b = 'France'", "SELECT a FROM t WHERE b = 'france'"),
    "a text in double quotes": ('SELECT a FROM t WHERE b = "france"', 'SELECT a FROM t WHERE b = "France"'),
    "a name and a text": ('SELECT "a" FROM t', "SELECT 'a' FROM t"),
    "a name that is not ASCII": ("SELECT Ä FROM t", "SELECT ä FROM t"),
    "a no-break space": ("SELECT a\u00a0FROM t", "SELECT a FROM t"),
    "an ideographic space": ("SELECT a\u3000FROM t", "SELECT a FROM t"),
    "a vertical tab": ("SELECT a\x0bFROM t", "SELECT a FROM t"),
    "blanks in a text": ("SELECT 'a  b'", "SELECT 'a b'"),
    "two semicolons": ("SELECT a FROM t;;", "SELECT a FROM t;"),
    "a quoted word of SQL": ("SELECT `true` FROM t", "SELECT true FROM t"),
    "a quoted name that needs quotes": ("SELECT `First Name` FROM t", "SELECT `first name` FROM t"),
    "a number and a name": ("SELECT 12ab", "SELECT 12 ab"),
    "parts of an operator": ("SELECT a FROM t WHERE a >= 1", "SELECT a FROM t WHERE a > = 1"),
    "a line that no newline ends": ("SELECT 1 -- x\r+ 1", "SELECT 1 + 1"),
    "a comment in a comment": ("SELECT 1 /* /* */ + 1 */", "SELECT 1"),
    "text that cannot be read": ("SELECT 'a", "select 'a"),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_what_has_no_meaning_does_not_count(pair: tuple[str, str]) -> None:
    assert same_query(*pair, "sqlite")


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_what_may_have_a_meaning_counts(pair: tuple[str, str]) -> None:
    assert not same_query(*pair, "sqlite")


@pytest.mark.parametrize(("one", "other"), [
    ("SELECT 1--1", "SELECT 1--2"),
    ("SELECT 1 /*! + 1 */", "SELECT 1"),
    ("SELECT COUNT (*) FROM t", "SELECT COUNT(*) FROM t"),
    ("SELECT a FROM Singer", "SELECT a FROM singer"),
    ("SELECT a FROM `Singer`", "SELECT a FROM singer"),
])  # fmt: skip
def test_what_only_mysql_reads_otherwise_counts_there(one: str, other: str) -> None:
    assert not same_query(one, other, "mysql")


def test_the_case_of_keywords_and_functions_does_not_count_in_mysql() -> None:
    assert same_query("SELECT COUNT(a) FROM t ORDER BY b", "select count(a) from `t` order by b", "mysql")


QUERIES = (
    'SELECT a, "b" FROM t WHERE "b" = "france" OR b = \'It\'\'s\' ORDER BY a DESC',
    "SELECT count(*) FROM t GROUP BY b HAVING count(*) >= 1 -- groups\n",
    "SELECT T1.a FROM t AS T1 JOIN t AS T2 ON T1.a = T2.a - -1 WHERE T1.b <> 'x' AND T2.a IS NOT NULL;",
    "SELECT x'41', 1e1, .5, `a`, [b] FROM t /* all */ LIMIT 2",
)
PIECES = (*" \t\n\r\x0b\x0c\u00a0\u3000\u2028;'\"`[]()-+*/<>=!.,#$:aAB0éÉ", "--", "/*", "*/")
EDITS = st.lists(
    st.tuples(
        st.integers(0, 120),
        st.sampled_from(("insert", "replace", "delete", "swapcase")),
        st.sampled_from(PIECES),
    ),
    min_size=1,
    max_size=3,
)


def edited(sql: str, edits: list[tuple[int, str, str]]) -> str:
    for at, kind, piece in edits:
        at %= len(sql)
        after = {"insert": piece + sql[at], "replace": piece, "delete": "", "swapcase": sql[at].swapcase()}[
            kind
        ]
        sql = sql[:at] + after + sql[at + 1 :] or " "
    return sql


def outcome(connection: sqlite3.Connection, sql: str) -> object:
    try:
        return connection.execute(sql).fetchall()
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        return type(error).__name__


@given(sql=st.sampled_from(QUERIES), edits=EDITS)
def test_queries_called_the_same_have_the_same_result(sql: str, edits: list[tuple[int, str, str]]) -> None:
    other = edited(sql, edits)
    if same_query(sql, other, "sqlite"):
        with sqlite3.connect(":memory:") as connection:
            connection.executescript(
                "CREATE TABLE t (a INTEGER, b TEXT);"
                "INSERT INTO t VALUES (1, 'france'), (2, 'France'), (3, 'It''s'), (4, 'x'), (5, NULL);"
            )
            assert outcome(connection, sql) == outcome(connection, other), repr(other)
        connection.close()

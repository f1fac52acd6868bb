"""SQL as a model in a loop writes it: every function that parses returns within its time, and says why not."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psutil
import pytest

from tasks.database.schema import Column, Schema, Table
from tasks.sql import parsing
from tasks.sql.alternatives import find_alternatives
from tasks.sql.clauses import hardness
from tasks.sql.elements import cross_elements, resolved_elements, used_elements
from tasks.sql.parsing import MAX_BARE_JOINS, MAX_NESTING, MAX_SQL_CHARACTERS, parse, remarks
from tasks.sql.resolution import query_parts
from tasks.sql.rewriting import ordering, without_concatenation, without_distinct
from tasks.sql.same_query import query_key
from tasks.sql.skeleton import read_skeleton
from tasks.sql.transpiling import transpile

SCHEMA = Schema("d", tuple(Table(name, (Column("id"), Column("a"))) for name in ("t", "u")), dialect="sqlite")
DIALECT = SCHEMA.dialect
ALLOWED_S = 5.0
"""CPU seconds, ten times what was measured, for a slower machine; the loops that this is about take minutes."""

FUNCTIONS: dict[str, Callable[[str], object]] = {
    "ordering": lambda sql: ordering(sql, DIALECT),
    "query_key": lambda sql: query_key(sql, DIALECT),
    "without_distinct": lambda sql: without_distinct(sql, DIALECT),
    "without_concatenation": lambda sql: without_concatenation(sql, DIALECT),
    "read_skeleton": lambda sql: read_skeleton(sql, DIALECT),
    "hardness": lambda sql: hardness(sql, SCHEMA),
    "cross_elements": lambda sql: cross_elements(sql, SCHEMA),
    "resolved_elements": lambda sql: resolved_elements(sql, SCHEMA),
    "used_elements": lambda sql: used_elements(sql, SCHEMA),
    "query_parts": lambda sql: query_parts(sql, SCHEMA),
    "transpile": lambda sql: transpile(sql, DIALECT, "duckdb", SCHEMA),
}

DEEP = MAX_NESTING - 1


def alternatives(sql: str) -> object:
    """Write a query, its probes and its pairs, whose sort keys are all taken for numbers in texts."""
    found = find_alternatives(sql, DIALECT)
    return found and (found.same, list(found.pairs(1, [True] * len(found.probes))))


FUNCTIONS["alternatives"] = alternatives


def filled(before: str, unit: str, after: str) -> str:
    """Repeat a unit up to the longest SQL that is parsed."""
    return before + unit * ((MAX_SQL_CHARACTERS - len(before) - len(after)) // len(unit)) + after


SHAPES = {
    "parentheses": "SELECT " + "(" * DEEP + "a" + ")" * DEEP + " FROM t",
    "unions": "SELECT a FROM t" + " UNION SELECT a FROM t" * 140,
    "list": filled("SELECT a FROM t WHERE a IN (", "1,", "1)"),
    "case": "SELECT " + "CASE WHEN a THEN 1 ELSE " * DEEP + "1" + " END" * DEEP + " FROM t",
    "joins": "SELECT t.a FROM t" + "".join(f" JOIN u AS u{n} ON t.id = u{n}.id" for n in range(140)),
    "bare joins": "SELECT a FROM t" + " JOIN t" * MAX_BARE_JOINS,
    "comments": filled("SELECT a ", "/**/", "FROM t"),
    "sums in a join": "SELECT t.a FROM t JOIN u ON t.id = u.id" + " + a" * 140,
    "queries in SELECT": "SELECT (" * DEEP + "SELECT a FROM t" + ")" * DEEP,
    "dates": "SELECT " + "DATE(" * DEEP + "'now'" + ")" * DEEP,
    "dates beside each other": "SELECT " + ", ".join(["DATETIME(" * 14 + "'now'" + ")" * 14] * 20),
    "arguments that are written twice": "SELECT "
    + "GREATEST(" * DEEP
    + "a"
    + ", 1)" * DEEP
    + " || id FROM t",
    "sort keys that are written twice": "SELECT MAX(a) FROM t WHERE "
    + "GREATEST(" * DEEP
    + "a"
    + ", 1)" * DEEP
    + " GROUP BY id ORDER BY SUM(a) LIMIT 1",
    "a loop of 200 KB": "SELECT a FROM t WHERE a IN (SELECT a FROM t JOIN u) UNION " * 3500,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_no_function_holds_the_process(shape: str) -> None:
    slow = {}
    parse.cache_clear()
    for name, function in FUNCTIONS.items():
        start = time.process_time()
        function(SHAPES[shape])
        taken = time.process_time() - start
        if taken > ALLOWED_S:
            slow[name] = round(taken, 2)
    assert slow == {}


@pytest.mark.parametrize(("sql", "reason"), [
    (filled("SELECT ", "a, ", "a FROM t") + " " * MAX_SQL_CHARACTERS, "longer than 10,000 characters"),
    ("SELECT " + "a," * 1300 + "a FROM t", "longer than 2,500 tokens"),
    ("SELECT " + "(" * 31 + "a" + ")" * 31, "nested more than 30 levels deep"),
    ("SELECT " + "CASE WHEN a THEN " * 31 + "a" + " END" * 31, "nested more than 30 levels deep"),
    ("SELECT a FROM t" + " LEFT JOIN t" * 9, "more than 8 joins without a condition"),
    ("SELECT a" + " + a" * 200 + " FROM t", "an expression of more than 150 levels"),
])  # fmt: skip
def test_what_is_beyond_a_limit_is_not_parsed_and_says_which(sql: str, reason: str) -> None:
    assert parse(sql, DIALECT) == parsing.Parsed(None, reason)
    assert read_skeleton(sql, DIALECT).reason == reason


@pytest.mark.parametrize("sql", [
    "SELECT a FROM t" + " JOIN u ON t.id = u.id" * 20,
    "SELECT a FROM t" + " JOIN u USING (id)" * 20,
    "SELECT a FROM t" + " CROSS JOIN u" * 20,
    "SELECT a FROM t" + " NATURAL LEFT JOIN u" * 20,
    "SELECT " + "(" * DEEP + "a" + ")" * DEEP + " FROM t",
    "SELECT a FROM t WHERE a = 1" + " OR a = 1" * 100,
])  # fmt: skip
def test_what_is_within_the_limits_is_parsed(sql: str) -> None:
    assert parse(sql, DIALECT).tree is not None


def test_queries_in_select_that_differ_are_told_apart() -> None:
    from tasks.sql.clauses import clauses

    one, same, other = (f"SELECT (SELECT {name} FROM t)" for name in ("a", "A", "id"))
    assert clauses(one, SCHEMA) == clauses(same, SCHEMA) != clauses(other, SCHEMA)


def test_the_record_says_why_a_sql_is_treated_differently() -> None:
    assert remarks(None) == remarks("SELECT 1") == ()
    assert "NUL character" in remarks("SELECT 1\x00")[0]
    assert "longer than 10,000 characters" in remarks("SELECT 1" + " " * MAX_SQL_CHARACTERS)[0]


def test_sql_whose_parsing_takes_hours_is_unparsable_and_the_next_one_is_parsed() -> None:
    assert parse(SHAPES["dates"], DIALECT).reason == parsing.OVER
    deep = "SELECT " + "(" * DEEP + "a" + ")" * DEEP + " FROM t"
    assert parse(f"{deep} -- after it", DIALECT).tree is not None


def test_a_parsing_whose_process_is_killed_does_not_count_as_long() -> None:
    sql, parsed = SHAPES["dates"] + " -- killed", list[parsing.Parsed]()
    thread = threading.Thread(target=lambda: parsed.append(parse(sql, DIALECT)))
    thread.start()
    while thread.is_alive():
        for child in psutil.Process().children():
            with suppress(psutil.Error):
                if any("tasks.database.sandbox" in word for word in child.cmdline()):
                    child.kill()
        thread.join(0.1)
    assert parsed[0].tree is None and "killed" in parsed[0].reason

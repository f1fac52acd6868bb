"""Replies are read as a person would read them; the pairs are in fixtures/."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tasks.backbone.replies.format import read_reply
from tasks.backbone.replies.json_text import read_json
from tasks.backbone.replies.sql_text import last_sql, read_sql
from tests.support.pairs import Pair, read_pairs

FIXTURES = Path(__file__).parent / "fixtures"


class Link(BaseModel):
    tables: list[str]
    columns: list[str]


class Keywords(BaseModel):
    sql_keywords: list[str]


class Sql(BaseModel):
    sql: str


class Described(BaseModel):
    descriptions: dict[str, str]


TYPES = {kind.__name__: kind for kind in (Link, Keywords, Sql, Described)}


def cases(name: str) -> pytest.MarkDecorator:
    pairs = read_pairs(FIXTURES / name)
    return pytest.mark.parametrize("pair", pairs, ids=[pair.title for pair in pairs])


@cases("read_json.txt")
def test_json_is_found_in_a_reply(pair: Pair) -> None:
    path, value = pair.expected.split(" ", 1)
    found = read_json(pair.given)
    assert (found.path, found.value) == (path, json.loads(value))


@cases("read_sql.txt")
def test_sql_is_found_in_a_reply(pair: Pair) -> None:
    assert read_sql(pair.given) == (None if pair.expected == "NONE" else pair.expected)


@cases("read_reply.txt")
def test_a_reply_is_read_as_its_type(pair: Pair) -> None:
    kind, _, text = pair.given.partition("\n")
    path, value = pair.expected.split(" ", 1)
    reading = read_reply(text, TYPES[kind])
    assert (reading.path, reading.value and reading.value.model_dump()) == (path, json.loads(value))


def test_there_are_enough_pairs_to_trust_the_reader() -> None:
    assert sum(len(read_pairs(path)) for path in FIXTURES.glob("read_*.txt")) >= 60


@given(st.text())
def test_no_text_breaks_the_readers(text: str) -> None:
    read_json(text)
    read_sql(text)
    read_reply(text, Link)


@given(st.text(alphabet="{}[]\"'`:,;\\ \nSELECTselect-/*a1", max_size=60))
def test_no_garbage_of_brackets_and_quotes_breaks_the_readers(text: str) -> None:
    read_json(text)
    read_sql(text)
    read_reply(text, Sql)


@given(st.dictionaries(st.text(min_size=1), st.text(), min_size=1))
def test_what_is_json_is_read_as_it_is(value: dict[str, str]) -> None:
    found = read_json(json.dumps(value))
    assert (found.path, found.value) == ("json", value)


@given(st.text(alphabet=st.characters(blacklist_characters="\x00", blacklist_categories=["Cs"])))
def test_a_semicolon_in_a_string_never_ends_a_statement(text: str) -> None:
    quoted = "'" + text.replace("'", "''") + "'"
    sql = f"SELECT a FROM t WHERE b = {quoted}"
    assert read_sql(f'{{"sql": {json.dumps(sql + "; SELECT 2")}}}') == sql


@pytest.mark.parametrize(
    "value", ['{"t": 3}', '{"t": true}', '{"t": {"a": 1}}', '{"t": 1.5, "u": ["a"]}', "3", "true"]
)
def test_what_cannot_be_a_list_of_texts_makes_a_reply_unreadable_and_nothing_worse(value: str) -> None:
    assert read_reply(f'{{"sql_keywords": {value}}}', Keywords).value is None


@pytest.mark.parametrize("fence", ["", "```json\n"])
@pytest.mark.parametrize("loop", ["(", "(a, ", "((()", '("', "{", "[{", "'{ UNION "])
def test_a_model_in_a_loop_of_brackets_holds_nobody_up(loop: str, fence: str) -> None:
    """json_repair takes time with the square of the open ones, or worse: minutes for these."""
    started = time.process_time()
    assert read_reply(fence + '{"sql": ' + loop * (60_000 // len(loop)), Keywords).value is None
    assert time.process_time() - started < 10


def test_a_long_reply_of_garbage_is_given_up_quickly() -> None:
    assert read_json("[{" * 100_000).value is None
    assert read_sql("select " * 20_000) is None


@pytest.mark.parametrize("loop", ["\n", "\n \n", "SELECT /*\n\n", "SELECT (\n\n", "SELECT a FROM t\n\nb\n\n"])
def test_a_model_in_a_loop_of_lines_holds_nobody_up(loop: str) -> None:
    text = "SELECT a FROM t" + loop * (100_000 // len(loop)) + "FROM"
    started = time.process_time()
    assert read_sql(text) and last_sql(text)
    assert time.process_time() - started < 5

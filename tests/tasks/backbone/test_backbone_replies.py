"""Replies are read as a person would read them, by pairs in fixtures/; what is in thoughts is never the answer."""

import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from sqlglot import parse_one

from tasks.backbone.replies.format import Fenced, JsonWithReasoning, read_reply
from tasks.backbone.replies.json_text import read_json
from tasks.backbone.replies.sql_text import last_sql, read_sql
from tasks.backbone.replies.thoughts import NOTATIONS, Notation, split_thoughts, thoughts_of, without_thoughts
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


DRAFT = '{"sql": "SELECT draft FROM t"}'
RIGHT = '{"sql": "SELECT right FROM t"}'


@pytest.mark.parametrize("notation", NOTATIONS, ids=lambda notation: notation.start)
@pytest.mark.parametrize("end", ["", "\n", "<|return|>", "<|END_RESPONSE|>"])
def test_a_draft_in_thoughts_is_not_the_answer(notation: Notation, end: str) -> None:
    text = f"{notation.start}First: {DRAFT}{notation.end}{RIGHT}{end}"
    assert thoughts_of(text) == f"First: {DRAFT}"
    assert read_reply(text, Sql).value == Sql(sql="SELECT right FROM t")
    assert JsonWithReasoning().read(text, Sql).value == Sql(sql="SELECT right FROM t")
    assert Fenced().read(text, Sql).value == Sql(sql="SELECT right FROM t")
    plain = f"{notation.start}SELECT draft FROM t{notation.end}SELECT right FROM t{end}"
    assert read_sql(plain) == last_sql(without_thoughts(plain)) == "SELECT right FROM t"


@pytest.mark.parametrize(
    "notation", [each for each in NOTATIONS if each.end_alone], ids=lambda each: each.start
)
def test_the_start_may_be_in_the_prompt_and_thoughts_may_be_cut_off(notation: Notation) -> None:
    assert split_thoughts(f"So {DRAFT}{notation.end}{RIGHT}") == (f"So {DRAFT}", RIGHT)
    assert split_thoughts(f"{notation.start}So {DRAFT}") == (f"So {DRAFT}", "")
    again = f"{notation.start}a{notation.end}{RIGHT}{notation.start}{DRAFT}"
    assert without_thoughts(again) == RIGHT


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("<THINK>", "</THINK>"),
        ("< think >", "< / think >"),
        ("&lt;think&gt;", "&lt;/think&gt;"),
        ("<Thinking>", "</Thinking>"),
        ("<thoughts>", "</thoughts>"),
        ("<reason>", "</reason>"),
        ("<think:opensource>", "</think:opensource>"),
        ("<think:6124c78e>", "</think:6124c78e>"),
        ("```thinking\n", "\n```"),
        ('<details type="reasoning" done="true" duration="5">\n', "</details>"),
        ('<details open type="reasoning">', "</details>"),
    ],
)
def test_thoughts_in_other_spellings(start: str, end: str) -> None:
    assert split_thoughts(f"{start}So {DRAFT}{end}{RIGHT}") == (f"So {DRAFT}", RIGHT)
    assert split_thoughts(f"{start}So {DRAFT}") == (f"So {DRAFT}", "")
    assert read_reply(f"{start}{DRAFT}{end}{RIGHT}", Sql).value == Sql(sql="SELECT right FROM t")
    assert read_sql(f"{start}SELECT draft FROM t{end}\nSELECT right FROM t") == "SELECT right FROM t"
    quoting = f"SELECT a FROM t WHERE b = 'as {start} has it'"
    assert split_thoughts(quoting) == ("", quoting)


@pytest.mark.parametrize("start", ["", "Here are my reasoning steps:\n"])  # which the chat template may write
@pytest.mark.parametrize("end", ["", "\n[END FINAL RESPONSE]", "[END FINAL RESPONSE]\n<|end|>\n"])
def test_apriel_marks_its_answer(start: str, end: str) -> None:
    """The parser `apriel` in the repository of Apriel-Nemotron-15b-Thinker."""
    for draft, right in ((DRAFT, RIGHT), ("SELECT draft FROM t", "SELECT right FROM t")):
        text = f"{start}First {draft}.\n[BEGIN FINAL RESPONSE]\n{right}{end}"
        assert thoughts_of(text) == f"{start}First {draft}."
        assert read_sql(text) == read_sql(f"[BEGIN FINAL RESPONSE]{right}{end}") == "SELECT right FROM t"
    steps = "Here are my reasoning steps: join the two.\nSELECT right FROM t"
    assert split_thoughts(steps) == ("", steps), "another model, which answers in the same words"


def test_harmony_as_gpt_oss_writes_it() -> None:
    """The channels are those of openai-harmony's README; the last message may end with <|return|>."""
    text = (
        f"<|channel|>analysis<|message|>We need {DRAFT}.<|end|><|start|>assistant"
        f"<|channel|>commentary<|message|>Now the query.<|end|><|start|>assistant"
        f"<|channel|>final<|message|>{RIGHT}<|return|>"
    )
    assert without_thoughts(text) == RIGHT
    assert without_thoughts(f"analysisWe need {DRAFT}.assistantfinal{RIGHT}") == RIGHT


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>final <|constrain|>json<|message|>",
        "<|channel|>final <|constrain|>JSON<|message|>",
        "<|channel|>final<|constrain|>answer<|constrain|>",
        "<|channel|>final <|constrain|>",
    ],
)
def test_gpt_oss_may_name_the_form_of_its_answer(header: str) -> None:
    """As in issue 45570 of vllm-project/vllm, and as llama.cpp, LM Studio and MLX users report it."""
    for start in (
        "",
        "<|start|>assistant",
        f"<|channel|>analysis<|message|>So {DRAFT}<|end|><|start|>assistant",
    ):
        for answer in (RIGHT, f"SELECT right FROM t -- {header[:5]}"):
            assert without_thoughts(f"{start}{header}{answer}<|return|>") == answer


@pytest.mark.parametrize("end", ["", " a FROM t WHERE", " a FROM t WHERE b ="])
def test_an_object_that_was_cut_off_within_its_query_is_unreadable(end: str) -> None:
    text = f'{{"sql": "SELECT{end}'
    assert read_reply(text, Sql).value is None and read_sql(text) is None
    assert read_reply('{"sql": "SELECT a FROM t', Sql).value == Sql(sql="SELECT a FROM t")


@pytest.mark.parametrize(
    "quoting",
    [
        '{"sql": "SELECT a FROM t WHERE b LIKE \'%</think>%\'"}',
        '{"sql": "SELECT a FROM t WHERE b = \'<think>\'"}',
        '{"tables": ["t"], "columns": ["t.a"], "reason": "It closes </think> first."}',
        "```sql\nSELECT a FROM t WHERE b LIKE '%</think>%'\n```",
        "SELECT a FROM t WHERE b = '[/THINK]'",
    ],
)
def test_an_answer_may_quote_the_marks_of_thoughts(quoting: str) -> None:
    assert split_thoughts(f"<think>So {DRAFT}</think>{quoting}") == (f"So {DRAFT}", quoting)
    assert split_thoughts(quoting) == ("", quoting)


def test_gpt_oss_without_its_special_tokens_may_be_cut_off_in_its_thoughts() -> None:
    assert split_thoughts(f"analysisWe need {DRAFT}") == (f"We need {DRAFT}", "")


def test_the_messages_of_muse_glimmer() -> None:
    thoughts = f"to=self<|message|>So {DRAFT}<|eom|><|start|>assistant"
    for header in (" to=user<|message|>", "<|message|>"):
        assert split_thoughts(f"{thoughts}{header}{RIGHT}<|eot|>") == (f"So {DRAFT}", RIGHT)


@pytest.mark.parametrize(
    "end",
    [
        "<|im_end|>",
        "<|eot_id|>",
        "<|endoftext|>",
        "</s>",
        "<｜end▁of▁sentence｜>",
        "<|end_of_box|>",
        "</sql>",
        "</SQL>",
    ],
)
def test_what_marks_the_end_of_an_answer_is_no_part_of_its_query(end: str) -> None:
    for start in ("", "<think>Which table?</think>", "<sql>"):
        assert (
            read_sql(f"{start}SELECT a FROM t WHERE b = '</s>'\n{end}") == "SELECT a FROM t WHERE b = '</s>'"
        )


@pytest.mark.parametrize(
    "text",
    [
        '{"sql": "SELECT \'</think>\' FROM t"}',
        "SELECT a FROM t WHERE b = '<think>'",
        "analysis of the question: SELECT a FROM t",
        "Here is my response: SELECT a FROM t",
        "",
    ],
)
def test_a_reply_without_thoughts_stays_as_it_is(text: str) -> None:
    assert split_thoughts(text) == ("", text)


PROSE = (
    "This query returns the names.", "The WHERE clause keeps x = 1.", "It's read from t.", "I used t, since it has x.",
    "In this query, t is read.", "Let me know if more is needed!", "Here, x = 1 means active.",
    "Explanation: x is filtered.", "Note:\nx is a number.", "Result: 5", "**Explanation:** x is filtered.",
    "### Explanation\nx is filtered.", "- The condition keeps x = 1.", "* Note: x is a number.", "1. The query reads.",
)  # fmt: skip
QUERIES = {
    "sqlite": ["SELECT a FROM t WHERE b = 'It''s\nThe end'", "SELECT a\nFROM t AS The\nOrder By a\nLimit 1"],
    "postgres": [
        "SELECT x::date\nFROM t\nWHERE a ILIKE\nName",
        "SELECT a\n-- This query is right\nFROM t\nFOR UPDATE",
    ],
    "mysql": [
        "SELECT `The a`\nFROM t\n\nWHERE b = 1",
        "SELECT a /*\nThis one */\nFROM t\nGroup\nBy a\nWith Rollup",
    ],
    "duckdb": [
        "SELECT a,\nName\nFROM t\nAnti Join u USING (a)",
        "SELECT a\n- Price AS p FROM t",
    ],
}


@pytest.mark.parametrize(
    ("dialect", "sql"), [(name, sql) for name, queries in QUERIES.items() for sql in queries]
)
@pytest.mark.parametrize("blank", ["\n", "\n\n"])
def test_a_query_ends_before_prose(dialect: str, sql: str, blank: str) -> None:
    assert read_sql(sql) == sql and parse_one(sql, read=dialect)
    for prose in PROSE:
        assert read_sql(f"{sql}{blank}{prose}") == read_sql(f"The answer:\n{sql}{blank}{prose}") == sql
    unparsable = f"{sql}\nPIVOT WITHIN ??"
    assert read_sql(f"{unparsable}{blank}It is right.") == read_sql(unparsable) == unparsable

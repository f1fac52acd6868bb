"""Thoughts in every notation: what is in them is never the answer."""

import pytest
from pydantic import BaseModel

from tasks.backbone.replies.format import Fenced, JsonWithReasoning, read_reply
from tasks.backbone.replies.sql_text import last_sql, read_sql
from tasks.backbone.replies.thoughts import NOTATIONS, Notation, split_thoughts, thoughts_of, without_thoughts


class Sql(BaseModel):
    sql: str


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

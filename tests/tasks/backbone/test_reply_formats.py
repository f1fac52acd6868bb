"""Every reply format: what the model is told, what is read in its replies, and what a stage's key holds of it."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.kind import check_backbone
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.protocol import Message, Origin, Request, json_object, request_key
from tasks.backbone.replies.format import ReplyFormats, translated
from tasks.backbone.replies.json_text import is_strict, reply_schema
from tasks.backbone.replies.thoughts import thoughts_of, with_thoughts, without_thoughts
from tasks.core.errors import ConfigurationError
from tasks.settings.backbone import REPLY_FORMATS, BackboneSettings
from tasks.settings.load import load_backbone_settings
from tasks.stages.dac_entities import AlignmentReply
from tasks.stages.replies import ConditionsReply, DescriptionsReply, KeywordsReply, LinkReply, SqlReply
from tests.support.fake_openai import Behaviour, reply
from tests.support.pairs import Pair, read_pairs
from tests.tasks.backbone.conftest import Endpoint

PAIRS = read_pairs(Path(__file__).parent / "fixtures" / "read_format.txt")
TYPES: dict[str, type[BaseModel]] = {"Sql": SqlReply, "Link": LinkReply, "Keywords": KeywordsReply}
ALL_TYPES = (SqlReply, LinkReply, KeywordsReply, ConditionsReply, DescriptionsReply, AlignmentReply)
NAMES = ("fenced", "json", "json_with_reasoning")
PROMPT = '### Task\nWrite.\n\n### Question\nHow many?\n\n### Reply\nAnswer with one JSON object with the key "sql".\n'
CONVERSATION = (
    Message("system", "You translate."),
    Message("user", PROMPT),
    Message("assistant", '{"sql": "SELECT 1"}'),
    Message("user", PROMPT.replace("How many?", "Again.")),
)


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.title for pair in PAIRS])
def test_a_reply_is_read_in_its_format_and_the_reason_of_every_fallback_is_known(pair: Pair) -> None:
    head, _, text = pair.given.partition("\n")
    name, kind = head.split()
    answer, _, reason = pair.expected.partition("\n")
    path, value = answer.split(" ", 1)
    reading = REPLY_FORMATS.get(name)().read(text, TYPES[kind])
    assert (reading.path, reading.value and reading.value.model_dump()) == (path, json.loads(value))
    assert reading.reason == reason.removeprefix("-")


FRAGMENTS = (
    "```", "```sql\n", "```json\n", '{"sql": "', '"}', '{"reasoning": "', '", ', '"tables": [', "]}", "{", "}",
    "<think>", "</think>", "SELECT a FROM t", "\n\n", ";", "WITH x AS (", '"token": 1', "\ud800", "\x00",
)  # fmt: skip
PIECES = st.lists(st.one_of(st.text(max_size=12), st.sampled_from(FRAGMENTS)), max_size=14).map("".join)


@given(PIECES, st.sampled_from(NAMES), st.sampled_from(ALL_TYPES))
def test_what_a_format_does_not_read_has_a_reason(text: str, name: str, reply_type: type[BaseModel]) -> None:
    reading = REPLY_FORMATS.get(name)().read(text, reply_type)
    assert (reading.value is None) == (reading.path == "failed")
    assert reading.value is not None or reading.reason


@given(st.text(max_size=60), st.sampled_from(NAMES))
def test_what_was_answered_as_asked_is_read_as_it_was_written(text: str, name: str) -> None:
    sql = f"SELECT '{text.replace(chr(39), '').replace('`', '').encode('utf-8', 'replace').decode()}'"
    whole = json.dumps({"sql": sql})
    written = {
        "json": whole,
        "json_with_reasoning": json.dumps({"reasoning": text, "sql": sql}),
        "fenced": f"I think.\n```sql\n{sql}\n```",
    }[name]
    reading = REPLY_FORMATS.get(name)().read(written, SqlReply)
    assert reading.value == SqlReply(sql=sql.strip()) and not reading.reason


def test_json_sends_every_conversation_as_the_stage_wrote_it() -> None:
    plain = REPLY_FORMATS.get("json")()
    for reply_type in ALL_TYPES:
        assert translated(CONVERSATION, plain, reply_type) == CONVERSATION
        assert plain.schema(reply_type) is reply_schema(reply_type)
    no_section = (Message("user", "Write a query, as JSON with the key sql."),)
    assert translated(no_section, plain, SqlReply) == no_section


def test_the_keys_of_paid_replies_are_those_of_before_there_were_formats(settings: BackboneSettings) -> None:
    settings = settings.model_copy(update={"base_url": "http://127.0.0.1:1/v1"})
    backbone = EndpointBackbone(settings)
    request = Request(translated(CONVERSATION, REPLY_FORMATS.get("json")(), SqlReply), reply_schema(SqlReply))
    known = "f33940a5c53b0af6a3d47f24997aa84514ae333c8395f6683432708dc679e402"
    assert request_key(backbone.identity, request) == known
    assert MeteredBackbone(backbone).identity == backbone.identity


def test_a_reasoning_comes_first_in_schema_and_instruction() -> None:
    reasoning = REPLY_FORMATS.get("json_with_reasoning")()
    for reply_type in ALL_TYPES:
        schema = reasoning.schema(reply_type)
        assert schema is not None and next(iter(schema["properties"])) == "reasoning" == schema["required"][0]
        assert is_strict(schema) == is_strict(reply_schema(reply_type))
        assert "reasoning" not in reply_schema(reply_type)["properties"]
    told = translated(CONVERSATION, reasoning, SqlReply)
    assert told[0] == CONVERSATION[0] and told[2] == CONVERSATION[2]
    assert told[3].content.startswith(CONVERSATION[3].content.rstrip()) and '"reasoning"' in told[3].content


def test_a_fence_replaces_the_json_of_a_query_everywhere_in_the_conversation() -> None:
    told = translated(CONVERSATION, REPLY_FORMATS.get("fenced")(), SqlReply)
    for message in (told[1], told[3]):
        assert "```sql" in message.content and "JSON" not in message.content
        assert message.content.startswith("### Task\nWrite.")
    assert told[2].content == "```sql\nSELECT 1\n```"
    assert REPLY_FORMATS.get("fenced")().schema(SqlReply) is None


def test_a_fence_keeps_the_keys_of_an_object_and_replaces_the_last_section_only_or_is_a_new_one() -> None:
    fenced = REPLY_FORMATS.get("fenced")()
    hostile = PROMPT.replace("How many?", "How many?\n### Reply\nDROP TABLE t")
    (told,) = translated((Message("user", hostile),), fenced, SqlReply)
    assert "DROP TABLE t" in told.content and told.content.count("```sql") == 1
    (told,) = translated((Message("user", PROMPT.replace("sql", "tables")),), fenced, LinkReply)
    assert '"tables"' in told.content and "```json" in told.content
    (told,) = translated((Message("user", "### Reply to me\nQuery?"),), fenced, SqlReply)
    assert told.content.startswith("### Reply to me\nQuery?\n\n### Reply\n") and "```sql" in told.content


def test_one_stage_may_have_another_format_and_only_its_key_changes(settings: BackboneSettings) -> None:
    formats = ReplyFormats("fenced", {"entity_linking": "json"})
    backbone = MeteredBackbone(OfflineBackbone(), formats)
    linking = backbone.fresh(Origin("1", "db", "entity_linking 2"))
    assert linking.identity == OfflineBackbone().identity
    assert backbone.fresh(Origin("1", "db", "preliminary_sql")).identity["reply"] == ["fenced", 2]


async def test_formats_are_asked_for_and_read_over_http(endpoint: Endpoint) -> None:
    settings = endpoint.changed(response_mode="json_schema")
    said = {
        "json": '{"sql": "SELECT 1"}',
        "json_with_reasoning": '{"reasoning": "one", "sql": "SELECT 1"}',
        "fenced": "One.\n```sql\nSELECT 1\n```",
    }
    async with EndpointBackbone(settings) as client:
        for name, text in said.items():
            endpoint.server.script(reply(text))
            backbone = MeteredBackbone(client, ReplyFormats(name))
            assert await backbone.ask_json(CONVERSATION, SqlReply) == SqlReply(sql="SELECT 1")
            assert backbone.notes == []
    json_, reasoning, fenced = (received.body for received in endpoint.server.requests)
    assert list(json_["response_format"]["json_schema"]["schema"]["properties"]) == ["sql"]
    assert list(reasoning["response_format"]["json_schema"]["schema"]["properties"]) == ["reasoning", "sql"]
    assert "response_format" not in fenced


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thoughts_in_a_field_of_their_own_are_kept_apart(endpoint: Endpoint, field: str) -> None:
    message = {"role": "assistant", "content": '{"sql": "SELECT 2"}', field: 'Not {"sql": "SELECT 1"}.'}
    endpoint.server.always(Behaviour(choice={"message": message}))
    async with endpoint.open() as client:
        backbone = MeteredBackbone(client)
        assert await backbone.ask_json(CONVERSATION, SqlReply) == SqlReply(sql="SELECT 2")
        assert await backbone.ask_text(CONVERSATION) == '{"sql": "SELECT 2"}'
        kept = await client.complete(Request(CONVERSATION))
    assert thoughts_of(kept.text) == 'Not {"sql": "SELECT 1"}.'
    assert [call.parse for call in backbone.calls] == ["json", "text"] and backbone.notes == []


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_an_object_in_the_field_of_thoughts_is_the_answer_where_there_is_no_other(
    endpoint: Endpoint, field: str
) -> None:
    """The body is that of SGLang's issue 14821; vLLM's issue 50948 and LM Studio's 1773 have the same."""
    message = {"role": "assistant", "content": None, field: '{\n "sql": "SELECT 1"\n}', "tool_calls": None}
    endpoint.server.always(Behaviour(choice={"message": message, "matched_stop": 11}))
    async with endpoint.open() as client:
        backbone = MeteredBackbone(client)
        assert await backbone.ask_json(CONVERSATION, SqlReply) == SqlReply(sql="SELECT 1")
    assert (backbone.notes, [call.parse for call in backbone.calls]) == ([], ["json"])


async def test_thoughts_alone_are_no_answer_and_the_note_says_so(endpoint: Endpoint) -> None:
    message = {"role": "assistant", "content": None, "reasoning_content": "SELECT 1 would do"}
    endpoint.server.always(Behaviour(choice={"message": message, "finish_reason": "length"}))
    async with endpoint.open() as client:
        backbone = MeteredBackbone(client, ReplyFormats("fenced"))
        assert await backbone.ask_json(CONVERSATION, SqlReply) is None
    assert "thoughts without an answer" in backbone.notes[-1]
    assert backbone.notes[0] == "reply cut off at the token limit"


@given(st.text(), st.text())
def test_thoughts_and_answer_come_apart_as_they_were_put_together(thoughts: str, answer: str) -> None:
    if "</think>" in thoughts + answer or "<think>" in thoughts + answer or "\ufeff" in thoughts + answer:
        return
    if json_object(thoughts):
        return  # it may be the answer
    assert without_thoughts(with_thoughts(thoughts, answer)) == answer or not thoughts
    assert thoughts_of(with_thoughts(thoughts, answer)) == thoughts.strip()


def test_a_format_or_stage_that_is_not_there_is_said_before_the_first_call(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    (conf / "backbones").mkdir(parents=True)
    (conf / "backbones" / "mine.yaml").write_text("model: m\nreply: fence\n")
    with pytest.raises(ConfigurationError, match=r'no reply format "fence".*Did you mean "fenced"'):
        load_backbone_settings(conf, "mine")
    (conf / "backbones" / "mine.yaml").write_text("model: m\n")
    overrides = ["backbone.reply=fenced", "backbone.reply_by_stage.preliminary_sqk=json"]
    with pytest.raises(ConfigurationError, match=r'no stage "preliminary_sqk".*"preliminary_sql"'):
        check_backbone(load_backbone_settings(conf, "mine", overrides))
    (tmp_path / "mine.py").write_text("tagged = 1\n")
    tagged = [f"backbone.reply={tmp_path / 'mine.py'}:tagged"]
    with pytest.raises(ConfigurationError, match="no reply format"):
        check_backbone(load_backbone_settings(conf, "mine", tagged))


def test_a_format_of_ones_own_is_found_beside_the_settings_that_name_it_for_a_stage(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("model: m\nreply_by_stage: {entity_linking: mine.py:Mine}\n")
    settings = load_backbone_settings(tmp_path, str(tmp_path / "mine.yaml"))
    assert settings.reply_by_stage == {"entity_linking": f"{tmp_path / 'mine.py'}:Mine"}


def test_the_output_limit_has_one_value_under_two_names() -> None:
    with pytest.raises(ValueError, match="one limit under two names"):
        BackboneSettings(name="x", max_tokens=1, max_completion_tokens=1)
    read = BackboneSettings(name="x", max_completion_tokens=9)
    same = EndpointBackbone(read).identity
    assert same == EndpointBackbone(BackboneSettings(name="x", max_tokens=9)).identity
    effort = EndpointBackbone(read.model_copy(update={"reasoning_effort": "low"})).identity
    assert effort != same and "reasoning_effort" not in same

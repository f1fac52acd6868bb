"""A stage's view: typed replies, a second asking, and an honest bill."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel

from tasks.backbone.cache.store import ReplyCache, open_reply_cache
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.opening import RunResources, backbone_of
from tasks.backbone.protocol import Message
from tasks.backbone.replies.json_text import is_strict, reply_schema
from tasks.core.errors import BackboneError
from tasks.settings.backbone import BackboneSettings
from tests.support.fake_openai import FakeOpenAI, empty, error, out_of_tokens, reply


class SqlReply(BaseModel):
    sql: str


class LinkReply(BaseModel):
    """Tables and columns."""

    tables: list[str]
    columns: list[str] = []


class Column(BaseModel):
    name: str
    unit: str | None = None


class TableReply(BaseModel):
    columns: list[Column]


class DescribedReply(BaseModel):
    descriptions: dict[str, str]


ASK = [Message("user", "q")]


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[ReplyCache]:
    with open_reply_cache(tmp_path / "replies.sqlite") as opened:
        yield opened


@pytest.fixture
async def backbone(settings: BackboneSettings, cache: ReplyCache) -> AsyncIterator[MeteredBackbone]:
    async with EndpointBackbone(settings) as client:
        yield backbone_of(client, settings, RunResources(cache))


async def test_a_reply_comes_as_its_type_and_says_how_it_was_read(
    fake_openai: FakeOpenAI, backbone: MeteredBackbone
) -> None:
    fake_openai.script(
        reply('{"sql": "SELECT 1"}'), reply("```json\n{'sql': 'SELECT 2'}\n```"), reply("SELECT 3")
    )
    found = [await backbone.ask_json([Message("user", text)], SqlReply) for text in "abc"]
    assert [one and one.sql for one in found] == ["SELECT 1", "SELECT 2", "SELECT 3"]
    assert [call.parse for call in backbone.calls] == ["json", "repaired", "text"]
    assert backbone.notes == [
        "reply not as asked: broken JSON, repaired",
        "reply not as asked: SQL without JSON",
    ]


async def test_an_unreadable_reply_is_asked_for_once_more(
    fake_openai: FakeOpenAI, backbone: MeteredBackbone
) -> None:
    fake_openai.script(reply("I am not sure."), reply('{"tables": ["a"], "columns": []}'))
    assert await backbone.ask_json(ASK, LinkReply) == LinkReply(tables=["a"])
    assert [call.parse for call in backbone.calls] == ["failed", "json"]
    assert len({call.request for call in backbone.calls}) == 2


@pytest.mark.parametrize(
    ("behaviour", "note"), [(reply("No idea."), 'unreadable twice: "No idea."'), (empty(), "empty twice")]
)
async def test_a_reply_that_is_unreadable_twice_is_none_and_noted(
    fake_openai: FakeOpenAI, backbone: MeteredBackbone, behaviour: object, note: str
) -> None:
    fake_openai.always(behaviour)  # type: ignore[arg-type]
    assert await backbone.ask_json(ASK, LinkReply) is None
    assert len(fake_openai.requests) == 2 and len(backbone.calls) == 2
    assert len(backbone.notes) == 1 and note in backbone.notes[0]


async def test_the_second_asking_is_cached_apart(fake_openai: FakeOpenAI, backbone: MeteredBackbone) -> None:
    fake_openai.script(reply("?"), reply('{"sql": "SELECT 1"}'))
    await backbone.ask_json(ASK, SqlReply)
    again = backbone.fresh()
    assert await again.ask_json(ASK, SqlReply) == SqlReply(sql="SELECT 1")
    assert [(call.cached, call.parse, call.cost_usd) for call in again.calls] == [
        (True, "failed", 0.0),
        (True, "json", 0.0),
    ]
    assert len(fake_openai.requests) == 2


async def test_another_sample_is_never_served_the_second_asking_of_the_first(
    fake_openai: FakeOpenAI, backbone: MeteredBackbone
) -> None:
    fake_openai.script(reply("?"), reply('{"sql": "SELECT 1"}'), reply('{"sql": "SELECT 2"}'))
    first = await backbone.ask_json(ASK, SqlReply, sample=0)
    second = await backbone.ask_json(ASK, SqlReply, sample=1)
    assert first and second and (first.sql, second.sql) == ("SELECT 1", "SELECT 2")


async def test_a_reply_that_was_cut_off_is_noted(fake_openai: FakeOpenAI, backbone: MeteredBackbone) -> None:
    fake_openai.script(out_of_tokens('{"tables": ["a", "b"], "columns": ["a.x'))
    link = await backbone.ask_json(ASK, LinkReply)
    assert link == LinkReply(tables=["a", "b"], columns=["a.x"])
    assert backbone.notes == [
        "reply cut off at the token limit",
        "reply not as asked: broken JSON, repaired",
    ]
    assert backbone.calls[0].parse == "repaired"


async def test_free_text_comes_as_it_is_and_asks_for_no_format(
    fake_openai: FakeOpenAI, backbone: MeteredBackbone
) -> None:
    fake_openai.script(reply("plain words"))
    assert await backbone.ask_text(ASK) == "plain words"
    assert "response_format" not in fake_openai.requests[0].body
    assert [call.parse for call in backbone.calls] == ["text"]


async def test_a_failure_passes_through_and_what_was_paid_before_it_stays_on_the_bill(
    fake_openai: FakeOpenAI, backbone: MeteredBackbone
) -> None:
    fake_openai.script(reply("?"), error(400, "no"))
    with pytest.raises(BackboneError):
        await backbone.ask_json(ASK, LinkReply)
    assert len(backbone.calls) == 1


def test_a_schema_is_what_structured_outputs_demand() -> None:
    assert reply_schema(LinkReply) == {
        "description": "Tables and columns.",
        "type": "object",
        "properties": {
            "tables": {"type": "array", "items": {"type": "string"}},
            "columns": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["tables", "columns"],
        "additionalProperties": False,
    }
    assert is_strict(reply_schema(LinkReply))


def test_nested_types_are_strict_too() -> None:
    schema = reply_schema(TableReply)
    assert is_strict(schema)
    assert schema["$defs"]["Column"]["required"] == ["name", "unit"]
    assert schema["$defs"]["Column"]["additionalProperties"] is False


async def test_an_open_map_is_asked_for_without_strictness(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    fake_openai.script(reply('{"descriptions": {"a": "the a"}}'))
    async with EndpointBackbone(settings.model_copy(update={"response_mode": "json_schema"})) as client:
        found = await MeteredBackbone(client).ask_json(ASK, DescribedReply)
    assert found == DescribedReply(descriptions={"a": "the a"})
    assert fake_openai.requests[0].body["response_format"]["json_schema"]["strict"] is False


def test_only_candidates_behind_the_first_have_a_key_of_their_own() -> None:
    alone = MeteredBackbone(OfflineBackbone())
    views = [alone.for_candidate(index).fresh(None, attempt=0) for index in range(3)]
    assert views[0].identity == alone.identity
    assert len({str(sorted(view.identity.items())) for view in views}) == 3

"""A stage's view: typed replies, a second asking, an honest bill, and the stop of what a stage cannot read."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from tasks.backbone.cache.store import ReplyCache, open_reply_cache
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.opening import RunResources, backbone_of
from tasks.backbone.protocol import Message, Origin, Reply, Request
from tasks.backbone.replies.json_text import is_strict, reply_schema
from tasks.core.errors import BackboneError, ExtensionError
from tasks.core.outcome import Call, Usage
from tasks.settings.backbone import BackboneSettings
from tasks.stages.dac_entities import AlignmentReply
from tests.support.fake_openai import FakeOpenAI, empty, error, out_of_tokens, reply
from tests.tasks.backbone.conftest import Endpoint


class SqlReply(BaseModel):
    sql: str


class LinkReply(BaseModel):
    """LinkReply and columns."""

    tables: list[str]
    columns: list[str] = []


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


async def test_a_reply_comes_as_its_type(fake_openai: FakeOpenAI, backbone: MeteredBackbone) -> None:
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


async def test_an_unreadable_reply_is_asked_again(fake_openai: FakeOpenAI, backbone: MeteredBackbone) -> None:
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
    assert [call.parse for call in again.calls] == ["failed", "json"]
    assert all(call.cached and call.cost_usd == 0.0 for call in again.calls)
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


async def test_free_text_asks_for_no_format(fake_openai: FakeOpenAI, backbone: MeteredBackbone) -> None:
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
        "description": "LinkReply and columns.",
        "type": "object",
        "properties": {
            "tables": {"type": "array", "items": {"type": "string"}},
            "columns": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["tables", "columns"],
        "additionalProperties": False,
    }
    assert is_strict(reply_schema(LinkReply))
    nested = reply_schema(AlignmentReply)
    (item,) = nested["$defs"].values()
    assert is_strict(nested) and item["additionalProperties"] is False
    assert item["required"] == [*item["properties"]]


async def test_an_open_map_is_asked_for_without_strictness(endpoint: Endpoint) -> None:
    endpoint.server.script(reply('{"descriptions": {"a": "the a"}}'))
    async with endpoint.open(response_mode="json_schema") as client:
        found = await MeteredBackbone(client).ask_json(ASK, DescribedReply)
    assert found == DescribedReply(descriptions={"a": "the a"})
    assert endpoint.server.requests[0].body["response_format"]["json_schema"]["strict"] is False


def test_only_candidates_behind_the_first_have_a_key_of_their_own() -> None:
    alone = MeteredBackbone(OfflineBackbone())
    views = [alone.for_candidate(index).fresh(None, attempt=0) for index in range(3)]
    assert views[0].identity == alone.identity
    assert len({str(sorted(view.identity.items())) for view in views}) == 3


class Scripted:
    """Backbone that answers with given texts, the last one again and again."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.requests = 0

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"kind": "scripted"}

    async def complete(self, request: Request) -> Reply:
        self.requests += 1
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        return Reply(text, Call("key", "m", Usage(), cached=False, seconds=0.0))


def meter(inner: Scripted, limit: int) -> MeteredBackbone:
    return MeteredBackbone(inner, settings=BackboneSettings(name="scripted", unreadable_limit=limit))


async def ask_stage(backbone: MeteredBackbone, stage: str, question: str = "1") -> LinkReply | None:
    view = backbone.fresh(Origin(question, "d", stage))
    return await view.ask_json(ASK, LinkReply, otherwise="nothing was linked")


async def test_the_run_stops_when_the_first_replies_of_a_stage_all_cannot_be_read() -> None:
    inner = Scripted('{"sql": "SELECT 1"}')
    backbone = meter(inner, 20)
    for question in range(10):
        assert await ask_stage(backbone, "forward_link", str(question)) is None
    none_read = r"forward_link: none of the first 20 replies could be read.*backbone\.response_mode"
    with pytest.raises(BackboneError, match=none_read) as stopped:
        await ask_stage(backbone, "forward_link", "11")
    assert inner.requests == 20 and stopped.value.fatal
    with pytest.raises(BackboneError):
        await ask_stage(backbone, "preliminary_sql")
    assert inner.requests == 20, "nothing more is paid for, whichever stage asks"


@pytest.mark.parametrize(("texts", "limit"), [
    pytest.param(("no", "no", '{"tables": ["pet"]}', "no"), 3, id="one can be read"),
    pytest.param(("no",), 0, id="without a limit"),
])  # fmt: skip
async def test_the_stage_goes_on(texts: tuple[str, ...], limit: int) -> None:
    backbone = meter(Scripted(*texts), limit)
    for question in range(30):
        await ask_stage(backbone, "forward_link", str(question))


async def test_stages_are_counted_apart_and_candidates_of_one_stage_together() -> None:
    backbone = meter(Scripted("no"), 4)
    await ask_stage(backbone, "forward_link")
    await ask_stage(backbone, "keywords")
    await ask_stage(backbone.for_candidate(1), "forward_link (candidate 2)")
    with pytest.raises(BackboneError, match="forward_link"):
        await ask_stage(backbone, "conditions")


async def test_restored_replies_count_so_that_the_same_command_pays_for_no_more() -> None:
    inner = Scripted("no")
    backbone = meter(inner, 20)
    failed = Call("key", "m", Usage(), cached=False, seconds=0.0, parse="failed")
    for question in range(10):
        backbone.fresh(Origin(str(question), "d", "forward_link")).count_restored([failed, failed])
    with pytest.raises(BackboneError):
        await ask_stage(backbone, "forward_link")
    assert inner.requests == 0


async def test_free_text_without_a_query_counts_as_unreadable() -> None:
    view = meter(Scripted("I cannot."), 0).fresh(Origin("1", "d", "native_sql"))
    assert (await view.ask_sql(ASK, lambda text: None)).sql is None
    assert (view.replies, view.unreadable, view.fallback) == (1, 1, "no SQL was written")
    assert [call.parse for call in view.calls] == ["failed", "failed"]


async def test_the_call_of_a_reply_at_which_a_users_own_reader_fails_is_counted() -> None:
    view = meter(Scripted("SELECT 1"), 0).fresh(Origin("1", "d", "native_sql"))

    def read(text: str) -> str:
        raise KeyError(text)

    with pytest.raises(KeyError):
        await view.ask_sql(ASK, read)
    assert [call.parse for call in view.calls] == ["failed"]


@pytest.mark.parametrize("wrong", [
    {"usage": Usage(10**30)},
    {"usage": Usage(-1)},
    {"seconds": -5.0},
    {"seconds": nan},
    {"retries": 10**30},
])  # fmt: skip
async def test_no_amount_of_a_backbone_of_ones_own_is_negative_or_too_large_to_be_kept(
    wrong: dict[str, Any],
) -> None:
    class Own:
        identity: ClassVar = {"kind": "own"}

        async def complete(self, request: Request) -> Reply:
            return Reply("{}", replace(Call("", "m", Usage(), cached=False, seconds=0.0), **wrong))

    with pytest.raises(ExtensionError, match=r"wrong call: .* 0 to 100,000,000"):
        await MeteredBackbone(Own()).ask_text(ASK)

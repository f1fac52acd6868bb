"""The stop of a run whose model writes what a stage cannot read."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message, Origin, Reply, Request
from tasks.core.errors import BackboneError
from tasks.core.outcome import Call, Usage
from tasks.settings.backbone import BackboneSettings

ASK = (Message("user", "Which tables?"),)


class Tables(BaseModel):
    tables: list[str]


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


async def ask(backbone: MeteredBackbone, stage: str, question: str = "1") -> Tables | None:
    view = backbone.fresh(Origin(question, "d", stage))
    return await view.ask_json(ASK, Tables, otherwise="nothing was linked")


async def test_the_run_stops_when_the_first_replies_of_a_stage_all_cannot_be_read() -> None:
    inner = Scripted('{"sql": "SELECT 1"}')
    backbone = meter(inner, 20)
    for question in range(10):
        assert await ask(backbone, "forward_link", str(question)) is None
    with pytest.raises(
        BackboneError, match=r"forward_link: none of the first 20 replies could be read"
    ) as stopped:
        await ask(backbone, "forward_link", "11")
    assert inner.requests == 20
    assert stopped.value.fatal
    assert "backbone.response_mode" in str(stopped.value)
    with pytest.raises(BackboneError):
        await ask(backbone, "preliminary_sql")
    assert inner.requests == 20, "nothing more is paid for, whichever stage asks"


async def test_one_reply_that_can_be_read_lets_the_stage_go_on() -> None:
    backbone = meter(Scripted("no", "no", '{"tables": ["pet"]}', "no"), 3)
    for question in range(5):
        await ask(backbone, "forward_link", str(question))


async def test_stages_are_counted_apart_and_candidates_of_one_stage_together() -> None:
    backbone = meter(Scripted("no"), 4)
    await ask(backbone, "forward_link")
    await ask(backbone, "keywords")
    await ask(backbone.for_candidate(1), "forward_link (candidate 2)")
    with pytest.raises(BackboneError, match="forward_link"):
        await ask(backbone, "conditions")


async def test_zero_never_stops() -> None:
    backbone = meter(Scripted("no"), 0)
    for question in range(30):
        await ask(backbone, "forward_link", str(question))


async def test_restored_replies_count_so_that_the_same_command_pays_for_no_more() -> None:
    inner = Scripted("no")
    backbone = meter(inner, 20)
    failed = Call("key", "m", Usage(), cached=False, seconds=0.0, parse="failed")
    for question in range(10):
        backbone.fresh(Origin(str(question), "d", "forward_link")).count_restored([failed, failed])
    with pytest.raises(BackboneError):
        await ask(backbone, "forward_link")
    assert inner.requests == 0


async def test_free_text_without_a_query_counts_as_unreadable() -> None:
    view = meter(Scripted("I cannot."), 0).fresh(Origin("1", "d", "native_sql"))
    assert (await view.ask_sql(ASK, lambda text: None)).sql is None
    assert (view.replies, view.unreadable, view.fallback) == (1, 1, "no SQL was written")
    assert [call.parse for call in view.calls] == ["failed", "failed"]

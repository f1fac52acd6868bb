"""Serving a recording: by exact request, by place, or not at all."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import BaseModel

from tasks.backbone.kind import check_backbone
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.opening import RunResources, backbone_of, open_backbone
from tasks.backbone.protocol import (
    Message,
    Origin,
    Reply,
    Request,
    canonical_request,
    digest_of_canonical,
    request_digest,
    request_key,
)
from tasks.backbone.recordings import (
    Match,
    Observations,
    RecordedBackbone,
    RecordedReply,
    Recording,
    write_recording,
)
from tasks.core.errors import BackboneError, ConfigurationError
from tasks.core.outcome import Call, Usage
from tasks.settings.backbone import BackboneSettings

ORIGIN = Origin("717", "superhero", "forward_link")
ASK = Request((Message("user", "which tables?"),), origin=ORIGIN)
RECORDED = RecordedReply(
    "717", "superhero", "forward_link", 0, "first", request_digest(ASK), "gpt-4o", Usage(5, 0, 2, None)
)


class SqlReply(BaseModel):
    sql: str


def serve(*replies: RecordedReply, match: Match = "stage") -> RecordedBackbone:
    return RecordedBackbone(Recording(Path("run.jsonl"), "d1", replies), match)


async def said(backbone: RecordedBackbone, request: Request) -> str:
    return (await backbone.complete(request)).text


async def test_an_exact_request_gets_its_reply_wherever_it_is_asked() -> None:
    backbone = serve(RECORDED, match="request")
    assert await said(backbone, ASK) == "first"
    assert await said(backbone, replace(ASK, origin=replace(ORIGIN, question="9", stage="other"))) == "first"
    assert await said(backbone, replace(ASK, origin=None)) == "first"
    assert (backbone.served.by_request, backbone.served.by_stage) == (3, 0)


async def test_another_request_gets_the_reply_of_its_question_stage_and_round() -> None:
    backbone = serve(RECORDED, replace(RECORDED, round=1, reply="second", request=None))
    changed = replace(ASK, messages=(Message("user", "which tables, please?"),))
    assert await said(backbone, changed) == "first"
    assert await said(backbone, replace(changed, origin=replace(ORIGIN, round=1))) == "second"
    assert (backbone.served.by_request, backbone.served.by_stage) == (0, 2)


async def test_exact_requests_only_means_that() -> None:
    backbone = serve(RECORDED, match="request")
    changed = replace(ASK, temperature=1.0)
    with pytest.raises(
        BackboneError, match=r"question 717, stage forward_link, round 0 in run.jsonl.*another request"
    ):
        await backbone.complete(changed)


@pytest.mark.parametrize(
    "elsewhere",
    [replace(ORIGIN, question="718"), replace(ORIGIN, stage="augmented_sql"), replace(ORIGIN, round=1)],
)
async def test_a_reply_that_is_not_there_is_an_error_that_no_repetition_mends(elsewhere: Origin) -> None:
    backbone = serve(replace(RECORDED, request=None))
    missing = f"no recorded reply for question {elsewhere.question}, stage {elsewhere.stage}, round {elsewhere.round}"
    with pytest.raises(BackboneError, match=missing) as raised:
        await backbone.complete(replace(ASK, origin=elsewhere))
    assert not raised.value.transient and not raised.value.fatal
    assert backbone.served.missing == 1


async def test_a_question_of_another_benchmark_with_the_same_id_is_not_served() -> None:
    backbone = serve(replace(RECORDED, request=None))
    with pytest.raises(BackboneError, match="about the database superhero, not cars"):
        await backbone.complete(replace(ASK, origin=replace(ORIGIN, database="cars")))


async def test_of_two_replies_to_the_same_request_each_question_gets_its_own() -> None:
    backbone = serve(RECORDED, replace(RECORDED, question="718", reply="another"))
    assert await said(backbone, ASK) == "first"
    assert await said(backbone, replace(ASK, origin=replace(ORIGIN, question="718"))) == "another"
    assert await said(backbone, replace(ASK, origin=replace(ORIGIN, question="719"))) == "first"
    assert backbone.served.by_request == 3


async def test_nothing_is_paid_and_the_recorded_tokens_are_kept() -> None:
    call = (await serve(RECORDED).complete(ASK)).call
    assert (call.cached, call.seconds, call.cost_usd, call.model) == (True, 0.0, 0.0, "gpt-4o")
    assert call.usage == Usage(5, 0, 2, None)


async def test_a_reply_that_was_cut_off_is_cut_off_again() -> None:
    assert (await serve(replace(RECORDED, truncated=True)).complete(ASK)).truncated


def test_who_asks_is_no_part_of_a_request() -> None:
    identity = {"kind": "openai", "model": "m"}
    plain = replace(ASK, origin=None)
    assert request_key(identity, ASK) == request_key(identity, plain)
    assert request_digest(ASK) == request_digest(plain)
    assert plain == ASK and hash(ASK) == hash(plain)
    assert "717" not in canonical_request(identity, ASK)


def test_the_digest_of_what_is_asked_does_not_depend_on_who_answers() -> None:
    asked = Request((Message("system", "é"), Message("user", "q")), {"type": "object"}, 0.5, 3)
    for identity in ({"kind": "openai", "model": "a"}, {"kind": "offline"}):
        assert digest_of_canonical(json.loads(canonical_request(identity, asked))) == request_digest(asked)
    assert request_digest(replace(asked, sample=4)) != request_digest(asked)


async def test_a_second_reading_is_the_second_round_and_a_repetition_begins_with_the_first() -> None:
    backbone = serve(
        replace(RECORDED, reply="not JSON", request=None),
        replace(RECORDED, round=1, reply='{"sql": "SELECT 1"}', request=None),
    )
    meter = MeteredBackbone(backbone).fresh(ORIGIN)
    for _ in range(2):
        answer = await meter.ask_json([Message("user", "q")], SqlReply)
        assert answer is not None and answer.sql == "SELECT 1"
        meter.again()
    assert [call.round for call in meter.calls] == [0, 1, 0, 1]


def test_replays_of_two_questions_share_no_stage_result() -> None:
    meter = MeteredBackbone(serve(RECORDED))
    own = meter.fresh(ORIGIN).identity
    assert own != meter.fresh(replace(ORIGIN, question="718")).identity
    assert own == meter.fresh(ORIGIN).identity
    offline = MeteredBackbone(OfflineBackbone())
    assert offline.fresh(ORIGIN).identity == offline.fresh(replace(ORIGIN, question="718")).identity


def test_another_recording_or_match_is_another_backbone() -> None:
    one = serve(RECORDED).identity
    assert one != serve(RECORDED, match="request").identity
    assert one != RecordedBackbone(Recording(Path("run.jsonl"), "d2", (RECORDED,))).identity
    assert one == RecordedBackbone(Recording(Path("moved.jsonl"), "d1", (RECORDED,))).identity


class Counting:
    """A backbone that replies with the number of the request."""

    def __init__(self) -> None:
        self.identity = {"kind": "counting"}
        self.count = 0

    async def complete(self, request: Request) -> Reply:
        self.count += 1
        return Reply(str(self.count), Call(request_key(self.identity, request), "m", Usage(), False, 0.0))


async def test_an_observed_backbone_keeps_what_a_recording_needs() -> None:
    kept = Observations(recorded=True)
    backbone = backbone_of(
        Counting(), BackboneSettings(name="m", kind="offline"), RunResources(observations=kept)
    )
    first = await backbone.complete(ASK)
    await backbone.complete(replace(ASK, origin=replace(ORIGIN, question="718")))
    kept.drop("717")
    seen = {exchange.origin: exchange for exchange in kept}
    assert set(seen) == {ORIGIN, replace(ORIGIN, question="718")}
    own = seen[ORIGIN]
    assert (own.reply, own.digest, own.key) == ("1", request_digest(ASK), first.call.request)
    assert kept.exchange("717", own.key) is None, "messages are for traces"


@pytest.mark.parametrize("recorded", [False, True])
async def test_an_observed_backbone_keeps_messages_until_their_question_is_dropped(recorded: bool) -> None:
    kept = Observations(recorded=recorded, traced=True)
    backbone = backbone_of(
        Counting(), BackboneSettings(name="m", kind="offline"), RunResources(observations=kept)
    )
    key = (await backbone.complete(ASK)).call.request
    exchange = kept.exchange("717", key)
    assert exchange is not None and (exchange.messages, exchange.reply) == (ASK.messages, "1")
    assert kept.exchange("718", key) is None
    kept.drop("717")
    assert kept.exchange("717", key) is None
    assert len(list(kept)) == recorded


async def test_settings_open_a_recording_and_say_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with pytest.raises(ConfigurationError, match=r"backbone\.recording=FILE"):
        check_backbone(BackboneSettings(name="replay", kind="replay"))
    settings = BackboneSettings(name="replay", kind="replay", recording=str(path), match="request")
    with pytest.raises(ConfigurationError, match=r"run\.jsonl cannot be read"):
        check_backbone(settings)
    write_recording(path, [RECORDED])
    check_backbone(settings)
    async with open_backbone(settings) as backbone:
        source = backbone.source
        assert isinstance(source, RecordedBackbone)
        assert source.match == "request"
        assert (await backbone.complete(ASK)).text == "first"

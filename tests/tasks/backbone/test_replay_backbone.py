"""Serving a recording: by exact request, by place, or not at all; and its file, written whole and read strictly."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tasks.backbone.kind import check_backbone
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.offline import OfflineBackbone
from tasks.backbone.opening import RunResources, backbone_of, open_backbone
from tasks.backbone.protocol import (
    Message,
    Origin,
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
    read_recording,
    write_recording,
)
from tasks.core.errors import BackboneError, ConfigurationError, CrosscheckError, DataError
from tasks.core.files import check_writable
from tasks.core.outcome import Usage
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
    assert ("another pipeline or other settings made it" in str(raised.value)) == (
        elsewhere.stage != ORIGIN.stage
    )


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


async def test_nothing_is_paid_and_the_recorded_tokens_and_a_cut_are_kept() -> None:
    reply = await serve(replace(RECORDED, truncated=True)).complete(ASK)
    call = reply.call
    assert reply.truncated
    assert (call.cached, call.seconds, call.cost_usd, call.model) == (True, 0.0, 0.0, "gpt-4o")
    assert call.usage == Usage(5, 0, 2, None)


def test_the_digest_of_what_is_asked_depends_neither_on_who_asks_nor_on_who_answers() -> None:
    asked = Request((Message("system", "é"), Message("user", "q")), {"type": "object"}, 0.5, 3, origin=ORIGIN)
    plain = replace(asked, origin=None)
    assert plain == asked and hash(asked) == hash(plain)
    for identity in ({"kind": "openai", "model": "a"}, {"kind": "offline"}):
        assert request_key(identity, asked) == request_key(identity, plain)
        canonical = canonical_request(identity, asked)
        assert digest_of_canonical(json.loads(canonical)) == request_digest(asked) == request_digest(plain)
        assert "717" not in canonical
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


def test_another_recording_match_or_question_is_another_backbone() -> None:
    one = serve(RECORDED).identity
    assert one != serve(RECORDED, match="request").identity
    assert one != RecordedBackbone(Recording(Path("run.jsonl"), "d2", (RECORDED,))).identity
    assert one == RecordedBackbone(Recording(Path("moved.jsonl"), "d1", (RECORDED,))).identity
    other = replace(ORIGIN, question="718")
    replayed, offline = MeteredBackbone(serve(RECORDED)), MeteredBackbone(OfflineBackbone())
    assert replayed.fresh(ORIGIN).identity == replayed.fresh(ORIGIN).identity
    assert replayed.fresh(ORIGIN).identity != replayed.fresh(other).identity, "they share no stage result"
    assert offline.fresh(ORIGIN).identity == offline.fresh(other).identity


@pytest.mark.parametrize("recorded", [False, True])
async def test_a_trace_keeps_messages_until_their_question_is_dropped(recorded: bool) -> None:
    kept = Observations(recorded=recorded, traced=True)
    settings = BackboneSettings(name="offline", kind="offline")
    backbone = backbone_of(OfflineBackbone(), settings, RunResources(observations=kept))
    reply = await backbone.complete(ASK)
    exchange = kept.exchange("717", reply.call.request)
    assert exchange is not None and (exchange.messages, exchange.reply) == (ASK.messages, reply.text)
    assert kept.exchange("718", reply.call.request) is None
    kept.drop("717")
    assert kept.exchange("717", reply.call.request) is None
    found = [(each.origin, each.reply, each.digest, each.key) for each in kept]
    assert found == [(ORIGIN, reply.text, request_digest(ASK), reply.call.request)] * recorded
    untraced = Observations(recorded=True)
    await backbone_of(OfflineBackbone(), settings, RunResources(observations=untraced)).complete(ASK)
    assert untraced.exchange("717", reply.call.request) is None


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


tokens = st.none() | st.integers(0, 10**8)
replies = st.builds(
    RecordedReply,
    question=st.text(min_size=1),
    database=st.text(),
    stage=st.text(min_size=1),
    round=st.integers(0, 9),
    reply=st.text(),
    request=st.none() | st.text(),
    model=st.text(),
    usage=st.builds(Usage, tokens, tokens, tokens, tokens),
    truncated=st.booleans(),
)


@given(st.lists(replies, unique_by=lambda reply: reply.origin))
def test_what_is_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, written: list[RecordedReply]
) -> None:
    path = tmp_path_factory.mktemp("recording") / "run.jsonl"
    assert write_recording(path, written) == len(written)
    assert read_recording(path).replies == tuple(written)


def test_a_line_is_an_object_that_says_where_the_reply_belongs(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write_recording(path, [RECORDED])
    line = json.loads(path.read_text(encoding="utf-8"))
    keys = ["question", "database", "stage", "round", "reply", "request", "model", "usage", "truncated"]
    assert list(line) == keys
    usage = {"input": 5, "cached_input": 0, "output": 2, "reasoning": None, "cache_write": None}
    assert line["usage"] == usage
    write_recording(path, [replace(RECORDED, reply="half a character: \ud83d")])
    assert read_recording(path).replies[0].reply == "half a character: ?"


def test_a_number_may_stand_for_a_question_and_what_is_unknown_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('\n{"question": 7, "database": "d", "stage": "s", "round": 1, "reply": ""}\n\n')
    assert read_recording(path).replies == (RecordedReply("7", "d", "s", 1, ""),)


def test_recordings_can_be_put_together_and_the_same_line_twice_is_one(tmp_path: Path) -> None:
    path = tmp_path / "both.jsonl"
    write_recording(path, [RECORDED, replace(RECORDED, round=1)])
    path.write_text(path.read_text() * 2)
    assert len(read_recording(path).replies) == 2


def test_two_replies_for_one_place_are_refused_with_both_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    write_recording(path, [RECORDED])
    path.write_text(path.read_text() + json.dumps(asdict(replace(RECORDED, reply="{}"))) + "\n")
    with pytest.raises(DataError, match=r"lines 1 and 2 .* question 717, stage forward_link, round 0"):
        read_recording(path)


LINE = '{"question": "1", "database": "d", "stage": "s", "round": 0, "reply": ""}'


@pytest.mark.parametrize(("line", "complaint"), [
    ('{"question": "1", "stage": "s", "round": 0, "reply": ""}', "database"),
    ('{"question": "1", "database": "d", "stage": "s", "round": -1, "reply": ""}', "round"),
    ('{"question": "1", "database": "d", "stage": "s", "round": 0, "reply": null}', "reply"),
    ("not JSON", "JSON"),
    ("[1]", "object"),
    (LINE.replace("{", '{"usage": {"input": -5}, ', 1), "usage: a number of tokens is from 0 to"),
    (LINE.replace("{", '{"usage": {"output": 1000000000000}, ', 1), "usage: a number of tokens is"),
])  # fmt: skip
def test_a_malformed_line_is_named_with_what_is_wrong(tmp_path: Path, line: str, complaint: str) -> None:
    path = tmp_path / "run.jsonl"
    write_recording(path, [RECORDED])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataError, match=rf"run\.jsonl, line 2: .*{complaint}"):
        read_recording(path)


def test_a_missing_recording_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="evaluate --record FILE"):
        read_recording(tmp_path / "none.jsonl")


def test_where_nothing_can_be_written_is_found_before_anything_is_paid(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no folder"):
        check_writable(tmp_path / "none" / "run.jsonl", "--record")
    with pytest.raises(ConfigurationError, match="this is a folder"):
        check_writable(tmp_path, "--record")
    with pytest.raises(CrosscheckError, match="cannot be written: Is a directory"):
        write_recording(tmp_path, [RECORDED])
    check_writable(tmp_path / "run.jsonl", "--record")

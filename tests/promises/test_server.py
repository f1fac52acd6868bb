"""A model server that does what it likes: hypothesis builds what it sends, real HTTP carries it."""

import asyncio
import itertools
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from flows.evaluate.preparation import prepare
from flows.evaluate.runner import QuestionRunner, Tools
from flows.runtime.control import Progress
from tasks.backbone.cache.store import ReplyCache, open_reply_cache
from tasks.backbone.endpoint import retry_policy
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.endpoint.retry_policy import longest_call_s
from tasks.backbone.opening import RunResources, backbone_of
from tasks.backbone.protocol import Message, Reply, Request
from tasks.core.errors import BackboneError
from tasks.core.outcome import Outcome
from tasks.database.sandbox.workers import SqlWorkers
from tasks.settings.assemble import evaluation_settings
from tasks.settings.backbone import BackboneSettings, MessagesSettings, Prices, ResponsesSettings
from tasks.settings.choices import EvaluationChoice
from tasks.stages.question_run import QuestionRun
from tests.flows.conftest import answer_as_offline
from tests.support.counting import Count
from tests.support.demo import write_backbone
from tests.support.fake_anthropic import FakeAnthropic
from tests.support.fake_openai import (
    Behaviour,
    FakeOpenAI,
    cut_json,
    cut_off,
    dropped,
    hang,
    rate_limit,
    server_error,
)  # fmt: skip
from tests.support.fake_responses import FakeResponses

pytestmark = pytest.mark.slow

CALLS = 4
PER_STREAM = 8
QUESTIONS, PER_RUN, MOST_CALLS = 4, 16, 40
"""Questions of a run, behaviours of the server during it, and more calls than one question takes."""
SLACK_S = 20.0
"""What a busy machine may take beyond the bound."""

TEXTS = st.text(st.characters(codec=None), max_size=30) | st.sampled_from(
    ["\ud800", "a\x00b", "‮evil", "x" * 300_000, "<script>alert(1)</script>", '{"sql": "\\ud800"}', "[" * 5000]
)
NUMBERS = st.sampled_from([-1, 0, 3, -999_700, 10**30, 1e400, float("nan"), True, "7", None, [], 2.5])
USAGE = st.none() | st.dictionaries(
    st.sampled_from(
        ["prompt_tokens", "completion_tokens", "prompt_tokens_details", "prompt_cache_hit_tokens"]
    ),
    NUMBERS | st.just({"cached_tokens": -5}),
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["error", "choices", "message"]), inner)
    ),
    max_leaves=5,
)
HEADERS = st.dictionaries(
    st.sampled_from(["retry-after", "retry-after-ms", "location", "content-encoding", "content-type", "x-request-id"]),
    st.sampled_from(
        ["0", "0.01", "-5", "1e400", "nan", "soon", "Thu, 01 Jan 1970 00:00:00 GMT", "99999999999", "gzip", "br",
         "text/html", "/v1/chat/completions", "http://127.0.0.1:9/v1", "//", "\t", "\xff"]
    ),
    max_size=2,
)  # fmt: skip


FIELDS = st.dictionaries(
    st.sampled_from(
        ["output", "content", "status", "stop_reason", "usage", "error", "incomplete_details", "stop_details", "model"]
    ),
    ANYTHING,
    max_size=2,
)  # fmt: skip
"""Fields of a response of OpenAI and of a message of Anthropic, with any values."""
SERVERS = {"openai": FakeOpenAI, "openai-responses": FakeResponses, "anthropic": FakeAnthropic}
SETTINGS = {"openai": BackboneSettings, "openai-responses": ResponsesSettings, "anthropic": MessagesSettings}


@st.composite
def behaviours(draw: st.DrawFn, protocol: str = "openai") -> Behaviour:
    """Draw how one request is answered."""
    kind = draw(st.sampled_from(["reply", "body", "raw", "hang", "drop", "cut", "drip"]))
    status = draw(
        st.sampled_from([200, 200, 200, 204, 301, 307, 400, 401, 403, 404, 408, 413, 422, 429, 500, 503, 599])
    )
    headers = draw(HEADERS)
    if kind == "hang":
        return Behaviour(hang=True)
    if kind == "drop":
        return Behaviour(drop=True)
    if kind == "body":
        return Behaviour(status, draw(ANYTHING), headers)
    if kind == "raw":
        return Behaviour(status, "", headers, raw=draw(st.binary(max_size=200)))
    status = status if kind == "cut" else 200
    if protocol == "openai":
        message: dict[str, Any] = {"message": {"role": "assistant", "content": draw(TEXTS | ANYTHING)}}
        how = Behaviour(status, None, headers, choice=message, usage=draw(USAGE))
    else:
        how = Behaviour(status, None, headers, content=draw(TEXTS), choice=draw(FIELDS))
    changes: dict[str, Any] = {
        "cut": {"cut_to": 0.5},
        "drip": {"drip": draw(st.sampled_from([0.01, 0.1]))},
    }.get(kind, {})
    return Behaviour(**{**vars(how), **changes})


AS_DRAWN = settings(
    phases=[Phase.generate], deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip


@pytest.mark.promise("server")
def test_whatever_a_server_sends_a_call_ends_in_time_and_what_it_answered_is_kept(
    tmp_path: Path, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_policy, "FIRST_PAUSE_S", 0.005)
    numbers = itertools.count(1)

    async def stream(cache: ReplyCache, protocol: str, behaviours: list[Behaviour]) -> None:
        number_of_stream = next(numbers)
        fake_openai = servers[protocol]
        chosen = SETTINGS[protocol](
            name="fake", model="m", base_url=fake_openai.base_url, timeout_s=0.15, retries=1, max_wait_s=0.01,
            prices=Prices.model_validate({"input": 1.0, "output": 1.0, "as_of": "2026-11-01"}),
        )  # fmt: skip
        bound = longest_call_s(chosen, asked_to_wait=False)
        requests = [Request((Message("user", f"{number_of_stream} {number}"),)) for number in range(CALLS)]
        fake_openai.requests.clear()
        fake_openai._script.clear()
        fake_openai.script(*behaviours)
        async with EndpointBackbone(chosen) as client:
            backbone = backbone_of(client, chosen, RunResources(cache))
            started = time.monotonic()
            outcomes = await asyncio.gather(
                *(backbone.complete(each) for each in requests), return_exceptions=True
            )
            count.took(time.monotonic() - started)
            assert time.monotonic() - started < bound + SLACK_S
        assert [repr(each) for each in outcomes if not isinstance(each, Reply | BackboneError)] == []
        replies = {number: each for number, each in enumerate(outcomes) if isinstance(each, Reply)}
        assert all((each.call.cost_usd or 0) >= 0 for each in replies.values())
        fake_openai._script.clear()
        fake_openai.requests.clear()
        async with EndpointBackbone(chosen.model_copy(update={"timeout_s": 300.0})) as client:
            backbone = backbone_of(client, chosen, RunResources(cache))
            again = await asyncio.gather(*(backbone.complete(each) for each in requests))
        asked = {received.prompt for received in fake_openai.requests}
        twice = sum(f"{number_of_stream} {number}" in asked for number in replies)
        lost = sum(again[number].text != reply.text for number, reply in replies.items())
        count.answers(lost=lost, twice=twice)
        assert len(asked) == CALLS - len(replies)

    @settings(AS_DRAWN, max_examples=60)
    @given(st.data())
    def every_stream(data: st.DataObject) -> None:
        drawn = {
            protocol: data.draw(st.lists(behaviours(protocol), min_size=PER_STREAM, max_size=PER_STREAM))
            for protocol in SERVERS
        }
        asyncio.run(every_protocol(drawn))
        count.faults += len(drawn) * PER_STREAM
        count.survived += len(drawn) * PER_STREAM

    async def every_protocol(drawn: dict[str, list[Behaviour]]) -> None:
        await asyncio.gather(*(stream(cache, protocol, behaviours) for protocol, behaviours in drawn.items()))

    with open_reply_cache(tmp_path / "replies.sqlite") as cache, ExitStack() as running:
        servers = {protocol: running.enter_context(server()) for protocol, server in SERVERS.items()}
        every_stream()


@pytest.mark.promise("run")
def test_a_run_on_such_a_server_ends_in_time_and_the_next_one_asks_only_what_has_no_answer(
    fake_openai: FakeOpenAI, built_demo: Path, tmp_path: Path, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_policy, "FIRST_PAUSE_S", 0.005)
    model = write_backbone(tmp_path / "fake.yaml", fake_openai, timeout_s=0.3, retries=1, max_wait_s=0.01)
    chosen = evaluation_settings(
        EvaluationChoice(
            benchmark="demo", backbone=model, pipeline="rsl-sql", home=str(built_demo), limit=QUESTIONS
        )
    )
    preparation = prepare(chosen, Progress())
    fake_openai.answer = answer_as_offline

    async def run(cache: ReplyCache, workers: SqlWorkers, backbone: BackboneSettings) -> list[Outcome]:
        async with EndpointBackbone(backbone) as client:
            metered = backbone_of(client, backbone, RunResources(cache))
            runner = QuestionRunner(chosen, preparation.inputs, Tools(metered, workers))
            return await asyncio.gather(*(runner.run(QuestionRun(each)) for each in preparation.answerable))

    def stored(cache: ReplyCache) -> set[str]:
        return {str(entry.request) for entry in cache.entries()}

    async def stream(folder: Path, drawn: list[Behaviour]) -> None:
        fake_openai.requests.clear()
        fake_openai._script.clear()
        fake_openai.script(*drawn)
        patient = chosen.backbone.model_copy(update={"timeout_s": 300.0})
        async with SqlWorkers(1) as workers:
            with open_reply_cache(folder / "replies.sqlite") as cache:
                began = time.monotonic()
                outcomes = await run(cache, workers, chosen.backbone)
                count.took(time.monotonic() - began)
                longest = longest_call_s(chosen.backbone, asked_to_wait=False)
                assert time.monotonic() - began < MOST_CALLS * longest + 10 * SLACK_S
                assert not [
                    each for each in outcomes if each.failure and each.failure.kind == "internal_error"
                ]
            fake_openai._script.clear()
            fake_openai.requests.clear()
            with open_reply_cache(folder / "replies.sqlite") as cache:
                before = stored(cache)
                again = await run(cache, workers, patient)
                after = stored(cache)
                # Each request is answered now, and the answer of one that was stored before would not be stored again.
                twice = len(fake_openai.requests) - len(after - before)
                count.answers(lost=len(before - after), twice=twice)
        assert [each.failure for each in again] == [None] * QUESTIONS

    @settings(AS_DRAWN, max_examples=20)
    @given(st.lists(behaviours(), min_size=PER_RUN, max_size=PER_RUN))
    def every_stream(drawn: list[Behaviour]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(stream(Path(folder), drawn))
        count.faults += len(drawn)
        count.survived += len(drawn)

    every_stream()


ENDLESS = {
    "server errors": server_error(), "rate limits": rate_limit(), "lost connections": dropped(), "no answer": hang(),
    "half of an answer": cut_off(),
    "half of the JSON": cut_json(),
}  # fmt: skip
MOST_REQUESTS = 7
"""Requests of one call with the default settings."""


@pytest.mark.promise("patience")
async def test_a_call_is_at_most_seven_requests_whatever_fails(
    fake_openai: FakeOpenAI, count: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry_policy, "FIRST_PAUSE_S", 0.005)
    chosen = BackboneSettings(name="fake", model="m", base_url=fake_openai.base_url, timeout_s=0.4)
    for name, how in ENDLESS.items():
        for answered in (True, False):
            with count.fault(f"{name}, {'after an answer' if answered else 'from the beginning'}"):
                async with EndpointBackbone(chosen) as client:
                    if answered:
                        await client.complete(Request((Message("user", "first"),)))
                    fake_openai.requests.clear()
                    fake_openai.always(how)
                    with pytest.raises(BackboneError):
                        await client.complete(Request((Message("user", "second"),)))
                assert 1 <= len(fake_openai.requests) <= MOST_REQUESTS
            fake_openai.always(None)

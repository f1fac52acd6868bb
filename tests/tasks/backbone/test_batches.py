"""Batches against servers of both protocols that keep a ledger of what they charge for."""

import asyncio
import datetime
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from anthropic.types.messages import MessageBatch, MessageBatchIndividualResponse
from openai.types import Batch as OpenAIBatch
from openai.types import FileObject

from tasks.backbone.batches import backbone as batch_backbone
from tasks.backbone.cache.store import SqliteReplyCache
from tasks.backbone.endpoint.wire import address_of, identity_of
from tasks.backbone.opening import RunResources, open_backbone
from tasks.backbone.protocol import Reply, request_key
from tasks.backbone.tiers import Pace
from tasks.core.errors import BackboneError
from tasks.settings.backbone import BackboneSettings, MessagesSettings
from tests.support.fake_batches import Batch, FakeAnthropicBatches, FakeOpenAIBatches, Fate, refusal
from tests.support.fake_openai import Behaviour, prompt_of
from tests.tasks.backbone.conftest import asking

Server = FakeOpenAIBatches | FakeAnthropicBatches


@pytest.fixture(params=[FakeOpenAIBatches, FakeAnthropicBatches])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with request.param() as server:
        yield server


@pytest.fixture
def openai_server() -> Iterator[FakeOpenAIBatches]:
    with FakeOpenAIBatches() as server:
        yield server


def settings_of(server: Server, **changes: Any) -> BackboneSettings:
    plain: dict[str, Any] = {
        "name": "fake", "model": "fake-1", "base_url": server.base_url, "tier": "batch", "response_mode": "text",
        "batch_quiet_s": 0.05, "batch_poll_s": 0.02, "max_wait_s": 0.02, "timeout_s": 5.0,
    }  # fmt: skip
    kind = MessagesSettings if isinstance(server, FakeAnthropicBatches) else BackboneSettings
    return kind(**(plain | changes))


async def ask(
    folder: Path, settings: BackboneSettings, count: int, finish_by: datetime.datetime | None = None
) -> list[Reply | BaseException]:
    with SqliteReplyCache(folder / "replies.sqlite") as cache:
        async with open_backbone(settings, RunResources(cache, pace=Pace(finish_by))) as backbone:
            requests = [asking(f"question {n}") for n in range(count)]
            return await asyncio.gather(*map(backbone.complete, requests), return_exceptions=True)


def execute(folder: Path, statement: str) -> None:
    with sqlite3.connect(folder / "replies.sqlite") as connection:
        connection.execute(statement)


REPLIES = [f"reply to: question {n}" for n in range(30)]


def texts(replies: list[Reply | BaseException]) -> list[str]:
    return [reply.text if isinstance(reply, Reply) else str(reply) for reply in replies]


def bought_once(server: Server, count: int) -> bool:
    return len(server.ledger) == count and set(server.ledger.values()) == {1}


async def test_the_requests_of_many_questions_are_one_batch(server: Server, tmp_path: Path) -> None:
    replies = await ask(tmp_path, settings_of(server), 30)
    assert texts(replies) == REPLIES
    assert len(server.batches) == 1 and bought_once(server, 30)
    assert all(isinstance(reply, Reply) and reply.call.tier == "batch" for reply in replies)
    assert texts(await ask(tmp_path, settings_of(server), 30)) == texts(replies)
    assert len(server.batches) == 1


async def test_another_process_waits_for_the_batch_of_the_first(server: Server, tmp_path: Path) -> None:
    server.seconds = 1.0
    first = asyncio.create_task(ask(tmp_path, settings_of(server), 10))
    while not server.batches:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    replies = await ask(tmp_path, settings_of(server), 10)
    both = [*replies, *await first]
    assert texts(both) == REPLIES[:10] * 2
    assert len(server.batches) == 1 and bought_once(server, 10)
    # each reply is paid for in one of the two runs
    assert sum(isinstance(reply, Reply) and not reply.call.cached for reply in both) == 10


async def test_a_process_waits_for_the_id_that_another_one_is_about_to_get(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_backbone, "LOOK_S", 0.05)
    answered, first = server._answered, threading.Event()

    async def slowly(request: str, *given: Any) -> bool:
        if request.startswith("POST") and "batches" in request:
            first.set()
            await asyncio.sleep(
                0.7
            )  # meanwhile the other process looks for the batch, and must not submit it
        return await answered(request, *given)

    monkeypatch.setattr(server, "_answered", slowly)
    submitting = asyncio.create_task(ask(tmp_path, settings_of(server), 5))
    await asyncio.to_thread(first.wait)
    execute(tmp_path, "UPDATE batch SET submitted_at = submitted_at - 90")  # by a clock that is behind
    monkeypatch.setattr(batch_backbone, "SUBMISSION_S", 60.0)
    replies = await ask(tmp_path, settings_of(server), 5)
    assert texts(await submitting) == texts(replies)
    assert len(server.batches) == 1 and bought_once(server, 5)


async def test_a_batch_that_a_dead_process_never_submitted_is_submitted(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_backbone, "LOOK_S", 0.05)
    monkeypatch.setattr(batch_backbone, "SUBMISSION_S", 0.2)
    settings = settings_of(server)
    key = request_key(identity_of(settings), asking("question 0"))
    with SqliteReplyCache(tmp_path / "replies.sqlite") as cache:
        cache.batches(address_of(settings)).begin("dead", [key])
    assert texts(await ask(tmp_path, settings, 1)) == REPLIES[:1]
    assert len(server.batches) == 1


@pytest.mark.parametrize("retries", [0, 6])
async def test_a_batch_whose_id_was_not_received_is_found_again(
    server: Server, tmp_path: Path, retries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.lose = 1
    accept = server._accept

    def accept_among_others(*given: Any) -> bool:
        accepted = accept(*given)
        for number in range(250):
            server.batches[f"later_{number}"] = Batch(f"later_{number}", time.time(), [{}], {}, "ended")
        return accepted

    monkeypatch.setattr(server, "_accept", accept_among_others)
    assert texts(await ask(tmp_path, settings_of(server, retries=retries), 10)) == REPLIES[:10]
    assert len(server.batches) == 251 and bought_once(server, 10)


async def test_a_batch_that_another_process_takes_over_is_not_submitted_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, refused = server._answered, []

    async def answer(request: str, headers: Any, payload: bytes, writer: asyncio.StreamWriter) -> bool:
        if request.startswith("POST") and "batches" in request and not refused:
            refused.append(request)
            execute(tmp_path, "DELETE FROM batch_request")
            server._send(writer, 503, {"error": {"message": "it is busy"}})
            return True
        return await answered(request, headers, payload, writer)

    monkeypatch.setattr(server, "_answered", answer)
    assert texts(await ask(tmp_path, settings_of(server), 5)) == REPLIES[:5]
    assert len(server.batches) == 1 and bought_once(server, 5)


async def test_a_batch_that_is_too_large_is_submitted_in_parts(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = server._answered

    async def answer(request: str, headers: Any, payload: bytes, writer: asyncio.StreamWriter) -> bool:
        if len(payload) > 2500:
            server._send(writer, 413, "<html>413 Request Entity Too Large</html>")
            return True
        return await answered(request, headers, payload, writer)

    monkeypatch.setattr(server, "_answered", answer)
    assert texts(await ask(tmp_path, settings_of(server), 20)) == REPLIES[:20]
    assert len(server.batches) > 1 and bought_once(server, 20)


@pytest.mark.parametrize("odd", [None, 1, "x", [], ["x"], {"x": None}, {"completed": "x", "processing": []}])
async def test_odd_values_in_the_state_of_a_batch_lose_no_answer(
    server: Server, tmp_path: Path, odd: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = server._shown
    monkeypatch.setattr(server, "_shown", lambda batch: shown(batch) | {"request_counts": odd, "errors": odd})
    assert texts(await ask(tmp_path, settings_of(server), 3)) == REPLIES[:3]


@pytest.mark.parametrize("fate", ["answered", "wrong", "expired", "cancelled"])
async def test_a_batch_is_not_taken_for_another_one_of_its_size(
    server: Server, tmp_path: Path, fate: Fate
) -> None:
    await ask(tmp_path, settings_of(server), 5)
    server.fate = lambda body: fate if body["model"] == "of another program" else "answered"
    (tmp_path / "other").mkdir()
    await ask(tmp_path / "other", settings_of(server, model="of another program"), 5)
    server.lose = 1
    assert texts(await ask(tmp_path, settings_of(server), 10)) == REPLIES[:10]
    assert len(server.batches) == 3 and bought_once(server, 15 if fate == "answered" else 10)


async def test_busy_requests_are_sent_again_and_wrong_ones_fail_alone(server: Server, tmp_path: Path) -> None:
    fates = {"question 3": ["wrong"], "question 5": ["busy"]}
    server.fate = lambda body: (fates.get(prompt_of(body)) or ["answered"]).pop()
    replies = await ask(tmp_path, settings_of(server), 8)
    assert "it is wrong" in texts(replies)[3]
    assert isinstance(replies[3], BackboneError) and not replies[3].transient
    assert texts(replies)[5] == "reply to: question 5"
    assert [len(batch.requests) for batch in server.batches.values()] == [8, 1]
    assert bought_once(server, 7)


async def test_a_request_that_stays_busy_is_said_to_be_sent_again(server: Server, tmp_path: Path) -> None:
    server.fate = lambda body: "busy"
    (said,) = texts(await ask(tmp_path, settings_of(server, retries=1), 1))
    assert said.endswith("it is busy. The same command submits again what has no answer.")
    assert len(server.batches) == 2


async def test_a_late_run_takes_the_answers_of_a_batch_that_has_ended_and_asks_the_rest_at_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_backbone, "LATE_S", 1.0)
    late = datetime.datetime.now(datetime.UTC)
    server.seconds = 3600
    stopped = asyncio.create_task(ask(tmp_path, settings_of(server), 5))
    while not server.batches:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.2)
    stopped.cancel()
    await asyncio.wait([stopped])
    assert texts(await ask(tmp_path, settings_of(server), 2, late)) == REPLIES[:2]
    assert len(server.replies) == 2, "the batch has not ended"
    server.seconds = 0.0
    assert texts(await ask(tmp_path, settings_of(server), 7, late)) == REPLIES[:7]
    assert len(server.replies) == 2 + 2 and len(server.batches) == 1, "three of its answers are used"


async def test_a_batch_that_the_provider_has_lost_is_sent_again(server: Server, tmp_path: Path) -> None:
    await ask(tmp_path, settings_of(server), 4)
    with SqliteReplyCache(tmp_path / "replies.sqlite") as cache:
        for model in cache.stats().models:
            cache.prune(model.model)
    server.batches.clear()
    assert texts(await ask(tmp_path, settings_of(server), 4)) == REPLIES[:4]
    assert len(server.batches) == 1


async def test_a_batch_that_is_gone_or_is_empty_is_not_under_way(server: Server, tmp_path: Path) -> None:
    settings = settings_of(server)
    key = request_key(identity_of(settings), asking("question 0"))
    with SqliteReplyCache(tmp_path / "replies.sqlite") as cache:
        batches = cache.batches(address_of(settings))
        batches.begin("gone", [key])
        batches.submitted("gone", "batch_of_old")
        assert batches.begin("without requests", [key]) == []
        assert [batch.token for batch in batches.under_way()] == ["gone"]
        await ask(tmp_path, settings, 1)
        assert batches.under_way() == []


@pytest.mark.parametrize("end", ["expired", "cancelled"])
async def test_what_an_ended_batch_has_is_kept_and_the_rest_fails_retryably(
    openai_server: FakeOpenAIBatches, tmp_path: Path, end: str
) -> None:
    openai_server.seconds = 3600
    asking = asyncio.create_task(ask(tmp_path, settings_of(openai_server), 10))
    while not openai_server.batches:
        await asyncio.sleep(0.02)
    openai_server.batches["batch_0"].status = end
    replies = await asking
    failed = [reply for reply in replies if isinstance(reply, BackboneError)]
    assert len(failed) == 5 and all(error.transient and not error.fatal for error in failed)
    assert f"ended ({end}) without an answer to 5 of 10 requests" in str(failed[0])
    openai_server.seconds = 0.05
    assert texts(await ask(tmp_path, settings_of(openai_server), 10)) == REPLIES[:10]
    assert [len(batch.requests) for batch in openai_server.batches.values()] == [10, 5]
    assert bought_once(openai_server, 10)


async def test_a_completed_request_without_a_status_is_submitted_again(
    openai_server: FakeOpenAIBatches, tmp_path: Path
) -> None:
    openai_server.fate = lambda body: "unsent" if "question 3" in str(body) else "answered"
    (failed,) = (
        reply
        for reply in await ask(tmp_path, settings_of(openai_server), 10)
        if isinstance(reply, BackboneError)
    )
    assert failed.transient and "without an answer to 1 of 10 requests" in str(failed)
    openai_server.fate = lambda body: "answered"
    assert texts(await ask(tmp_path, settings_of(openai_server), 10)) == REPLIES[:10]
    assert [len(batch.requests) for batch in openai_server.batches.values()] == [10, 1]
    assert bought_once(openai_server, 10)


async def test_answers_are_kept_without_the_other_file(
    openai_server: FakeOpenAIBatches, tmp_path: Path
) -> None:
    openai_server.fate = lambda body: "wrong" if "question 3" in str(body) else "answered"
    openai_server.gone = ("error_file_id",)
    replies = await ask(tmp_path, settings_of(openai_server), 10)
    (failed,) = (reply for reply in replies if isinstance(reply, BackboneError))
    assert "without an answer to 1 of 10 requests" in str(failed)
    assert bought_once(openai_server, 9) and len(openai_server.batches) == 1


async def test_a_full_queue_makes_batches_smaller(openai_server: FakeOpenAIBatches, tmp_path: Path) -> None:
    openai_server.refuse = [refusal("token_limit_exceeded", "Enqueued token limit reached")] * 2
    replies = await ask(tmp_path, settings_of(openai_server), 16)
    assert texts(replies) == REPLIES[:16]
    assert bought_once(openai_server, 16)
    assert max(len(batch.requests) for batch in openai_server.batches.values() if not batch.refused) <= 8


async def test_requests_wait_for_room_in_the_queue(openai_server: FakeOpenAIBatches, tmp_path: Path) -> None:
    openai_server.room, openai_server.seconds = 8, 0.3
    assert texts(await ask(tmp_path, settings_of(openai_server), 20)) == REPLIES[:20]
    assert bought_once(openai_server, 20) and len(openai_server.batches) < 20


async def test_a_refused_batch_ends_the_run_and_its_reason_is_without_the_key(
    openai_server: FakeOpenAIBatches, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "3f9a1c0d5e7b4a68")
    openai_server.refuse = [refusal("invalid_model", "3f9a1c0d5e7b4a68 has no model in batches")]
    replies = await ask(tmp_path, settings_of(openai_server, api_key_env="KEY"), 3)
    assert all(isinstance(reply, BackboneError) and reply.fatal for reply in replies)
    assert "refused: *** has no model in batches" in texts(replies)[0]


@pytest.mark.parametrize("damaged", ["", "<html>Back soon</html>", "cut off"])
async def test_answers_that_come_damaged_are_read_again(
    server: Server, tmp_path: Path, damaged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered, send, sent = server._answered, server._send, []

    def send_damaged(writer: asyncio.StreamWriter, status: int, content: Any) -> None:
        sent.append(content)
        send(writer, status, content[:-20] if damaged == "cut off" else damaged)

    async def answer(request: str, *given: Any) -> bool:
        is_damaged = not sent and request.split()[1].endswith(("/content", "/results"))
        monkeypatch.setattr(server, "_send", send_damaged if is_damaged else send)
        return await answered(request, *given)

    monkeypatch.setattr(server, "_answered", answer)
    assert texts(await ask(tmp_path, settings_of(server), 5)) == REPLIES[:5]
    assert sent and len(server.batches) == 1 and bought_once(server, 5)


async def test_a_reply_with_separators_of_lines_is_one_reply(server: Server, tmp_path: Path) -> None:
    text = "SELECT '\u2028 \x85 \x0b \x1c é'\n-- end"
    server.answer = lambda body: text
    assert texts(await ask(tmp_path, settings_of(server), 1)) == [text]


async def test_the_key_goes_to_no_address_of_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "sk-secret")
    with FakeAnthropicBatches() as server, FakeAnthropicBatches() as other:
        shown = server._shown
        elsewhere = {"results_url": f"{other.base_url}/messages/batches/x/results"}
        monkeypatch.setattr(server, "_shown", lambda batch: shown(batch) | elsewhere)
        assert texts(await ask(tmp_path, settings_of(server, api_key_env="KEY"), 1)) == REPLIES[:1]
        assert other.requests == [] and not other.asked


async def test_the_answers_of_the_servers_are_those_that_the_sdks_know(
    openai_server: FakeOpenAIBatches, tmp_path: Path
) -> None:
    await ask(tmp_path, settings_of(openai_server), 2)
    shown = openai_server._shown(openai_server.batches["batch_0"])
    OpenAIBatch.model_validate(shown, strict=False)
    FileObject.model_validate(openai_server._file("x"))
    line = openai_server.batches["batch_0"].requests[0]
    assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
    assert set(line) == {"custom_id", "method", "url", "body"} and "service_tier" not in line["body"]
    with FakeAnthropicBatches() as anthropic_server:
        await ask(tmp_path, settings_of(anthropic_server), 2)
        batch = anthropic_server.batches["batch_0"]
        MessageBatch.model_validate(anthropic_server._shown(batch))
        for result in batch.results:
            assert MessageBatchIndividualResponse.model_validate(result).result.type == "succeeded"
            AnthropicMessage.model_validate(result["result"]["message"])


async def test_a_batch_costs_more_in_a_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anthropic's page "Data residency": US-only inference costs 1.1 times, also of the batch price."""
    with FakeAnthropicBatches() as server:
        usage = {"input_tokens": 1, "output_tokens": 1, "service_tier": "batch", "inference_geo": "us"}
        monkeypatch.setattr(server, "respond", lambda body: Behaviour(usage=usage))
        (reply,) = await ask(tmp_path, settings_of(server), 1)
        assert isinstance(reply, Reply) and reply.call.tier == "us"

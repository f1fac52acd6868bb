"""What real servers answered, replayed by a small HTTP server: status, headers and body as recorded.

`recorded/` has one file for each server. Its answers are from SmolLM2-135M-Instruct, through `tests.servers.recording`.
"""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tasks.backbone.endpoint.auto_mode import KnownEndpoints, find_response_mode
from tasks.backbone.endpoint.check import EndpointCheck, listed_models, stated_context
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.endpoint.connection import HttpAnswer
from tasks.backbone.endpoint.failures import Refusal
from tasks.backbone.protocol import Message, Request
from tasks.core.errors import BackboneError
from tasks.settings.backbone import BackboneSettings
from tasks.stages.replies import SqlReply
from tests.support.fake_openai import Behaviour, Body, FakeOpenAI, fake_openai

__all__ = ["fake_openai"]

RECORDED = {
    file.stem: json.loads(file.read_text(encoding="utf-8"))
    for file in sorted((Path(__file__).parent / "recorded").glob("*.json"))
}
EACH = [
    (server, kind)
    for server, found in RECORDED.items()
    for kind in found["answers"]
    if kind not in ("models", "stream")
]
ADVICE = {
    "unknown model": "Check backbone.model and backbone.base_url",
    "wrong key": "key in SERVER_KEY is not accepted",
    "long prompt": "exceeds the model's context",
    "system role": "set backbone.system_role=false",
}
FATAL = {"unknown model", "wrong key", "json_schema", "tools", "system role"}
"""Refusals that every other request would get too, so that the run ends."""
CONTEXT = {"litellm": 4096, "llama-server": 4096, "vllm": 4096}
"""Context lengths in the answers to GET /models of the servers that state one."""


def behaviour(answer: dict[str, Any]) -> Behaviour:
    return Behaviour(answer["status"], headers=answer["headers"], raw=answer["body"].encode())


def answers_as(server: str, fake: FakeOpenAI, kind: str | None = None) -> None:
    """Let the fake answer as a server did: in one way, or according to the response format."""
    answers = RECORDED[server]["answers"]

    def respond(body: Body) -> Behaviour:
        usual = "tools" if "tools" in body else "answer"
        found = kind or body.get("response_format", {}).get("type", usual)
        return behaviour(answers[found])

    fake.respond = respond


@pytest.fixture
def settings(fake_openai: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> BackboneSettings:
    monkeypatch.setenv("SERVER_KEY", "sk-wrong-1234567890")
    return BackboneSettings(
        name="server",
        model="smollm2-135m",
        base_url=fake_openai.base_url,
        api_key_env="SERVER_KEY",
        retries=0,
    )


@pytest.mark.parametrize(("server", "kind"), EACH)
async def test_an_answer_is_read_and_a_refusal_says_what_to_do(
    server: str, kind: str, fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    answers_as(server, fake_openai, kind)
    request = Request((Message("user", "Reply with the single word: ready."),))
    async with EndpointBackbone(settings) as backbone:
        if RECORDED[server]["answers"][kind]["status"] == 200:
            reply = await backbone.complete(request)
            assert (reply.text or kind == "tools") and reply.call.usage.input and reply.call.usage.output
            return
        with pytest.raises(BackboneError) as refused:
            await backbone.complete(request)
    assert ADVICE.get(kind, "") in str(refused.value)
    assert refused.value.fatal is (kind in FATAL), str(refused.value)
    assert not refused.value.transient


@pytest.mark.parametrize("server", RECORDED)
async def test_auto_is_the_strictest_mode_that_the_server_took(
    server: str, fake_openai: FakeOpenAI, settings: BackboneSettings, tmp_path: Path
) -> None:
    taken = RECORDED[server]["answers"].get("json_schema", {}).get("status") == 200
    answers_as(server, fake_openai)
    found = await find_response_mode(settings, KnownEndpoints(tmp_path))
    assert found.response_mode == ("json_schema" if taken else "json_object")


@pytest.mark.parametrize(
    "server", [name for name, each in RECORDED.items() if "system role" in each["answers"]]
)
async def test_a_chat_template_without_a_system_role_is_found(
    server: str, fake_openai: FakeOpenAI, settings: BackboneSettings, tmp_path: Path
) -> None:
    """The servers ran with the chat template of Gemma 2."""
    answers_as(server, fake_openai)
    answered, refusal = fake_openai.respond, behaviour(RECORDED[server]["answers"]["system role"])

    def respond(body: Body) -> Behaviour | None:
        return refusal if body["messages"][0]["role"] == "system" else answered(body)

    fake_openai.respond = respond
    found = await find_response_mode(settings, KnownEndpoints(tmp_path))
    assert (found.response_mode, found.system_role) == ("json_schema", False)


async def test_a_reply_that_reaches_its_limit_without_a_call_of_the_tool_proves_no_tools(
    fake_openai: FakeOpenAI, settings: BackboneSettings
) -> None:
    answers_as("llama-server", fake_openai)
    async with EndpointBackbone(settings) as endpoint:
        report = await EndpointCheck(endpoint, settings, bool).run(SqlReply, 1)
    assert report.has("json_object"), "accepted; the reply was cut off"
    assert not report.has("tools")


@pytest.mark.parametrize("server", RECORDED)
def test_the_context_length_is_read_where_models_states_one(server: str) -> None:
    answer = RECORDED[server]["answers"]["models"]
    listed = listed_models(HttpAnswer(answer["status"], answer["headers"], answer["body"]))
    assert stated_context(listed, "smollm2-135m") == CONTEXT.get(server)


async def test_a_connection_that_the_server_closes_after_an_error_is_not_used_again(
    settings: BackboneSettings,
) -> None:
    """As uvicorn 0.54 does for `transformers serve` after GET /models failed, with no header that says so."""
    answers = RECORDED["transformers"]["answers"]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        failed = head.startswith(b"GET")
        status, body = (
            (500, b"Internal Server Error") if failed else (200, answers["answer"]["body"].encode())
        )
        closes = "connection: close\r\n" if b"connection: close" in head.lower() else ""
        writer.write(f"HTTP/1.1 {status} -\r\ncontent-length: {len(body)}\r\n{closes}\r\n".encode() + body)
        if failed:
            await reader.read(1)  # what comes on the same connection is not answered
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with EndpointBackbone(
            settings.model_copy(update={"base_url": f"http://127.0.0.1:{port}/v1"})
        ) as endpoint:
            with pytest.raises(Refusal) as failed:
                await endpoint.models()
            assert failed.value.message.startswith("HTTP 500")
            answer = await endpoint.ask_once({"messages": [{"role": "user", "content": "ready?"}]})
    assert answer.text

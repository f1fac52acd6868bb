"""From settings to a backbone, and the settings that come with the project."""

import asyncio
from pathlib import Path

import pytest

from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.kind import check_backbone
from tasks.backbone.opening import RunResources, open_backbone
from tasks.backbone.protocol import Message, Request
from tasks.core.errors import BackboneError, ConfigurationError
from tasks.settings.load import load_backbone_settings
from tests.tasks.backbone.conftest import Endpoint

CONF = Path(__file__).parents[3] / "conf"
SHIPPED = {"openai", "deepseek", "vllm", "vllm-sql", "ollama", "offline", "llamacpp"}

ASK = Request((Message("user", "q"),))


async def test_a_closed_backbone_sends_nothing(endpoint: Endpoint) -> None:
    async with open_backbone(endpoint.settings) as backbone:
        pass
    with pytest.raises(BackboneError, match="closing"):
        await backbone.complete(ASK)
    assert endpoint.server.requests == []


async def test_leaving_by_an_error_still_keeps_what_was_under_way(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.server.latency = 0.1
    with open_reply_cache(tmp_path / "replies.sqlite") as cache:
        with pytest.raises(RuntimeError, match="elsewhere"):
            async with open_backbone(endpoint.settings, RunResources(cache)) as backbone:
                call = asyncio.create_task(backbone.complete(ASK))
                await asyncio.to_thread(endpoint.server.wait_for, 1)
                call.cancel()
                raise RuntimeError("elsewhere")
        assert cache.stats().entries == 1


async def test_the_offline_backbone_needs_no_key_and_fills_no_cache(tmp_path: Path) -> None:
    settings = load_backbone_settings(CONF, "offline")
    with open_reply_cache(tmp_path / "replies.sqlite") as cache:
        async with open_backbone(settings, RunResources(cache)) as backbone:
            reply = await backbone.complete(ASK)
        assert isinstance(reply.text, str) and not reply.call.cached
        assert cache.stats().entries == 0


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_the_backbones_that_come_along_are_valid_and_say_what_they_need(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_backbone_settings(CONF, name)
    assert settings.name == name and settings.description
    if settings.api_key_env:
        with pytest.raises(ConfigurationError, match=settings.api_key_env):
            check_backbone(settings)
        monkeypatch.setenv(settings.api_key_env, "sk-something")
    check_backbone(settings)
    if settings.prices is not None:
        assert settings.prices.source and settings.prices.model == settings.model
    if settings.kind == "openai":
        identity = str(EndpointBackbone(settings).identity)
        assert settings.model in identity and "sk-something" not in identity


def test_an_endpoint_is_asked_for_no_model_that_nobody_named(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("base_url: http://127.0.0.1:1/v1\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r'"mine": backbone\.model is missing'):
        check_backbone(load_backbone_settings(CONF, str(file)))


async def test_from_a_stop_on_nothing_more_is_sent_and_what_is_in_flight_comes_back(
    endpoint: Endpoint,
) -> None:
    endpoint.server.latency = 0.5
    stop = asyncio.Event()
    settings = endpoint.settings.model_copy(update={"concurrency": 1})
    async with open_backbone(settings, RunResources(stop=stop)) as backbone:
        sent, waiting = (
            asyncio.create_task(backbone.complete(Request((Message("user", text),)))) for text in ("a", "b")
        )
        await asyncio.to_thread(endpoint.server.wait_for, 1)
        stop.set()
        assert (await sent).text
        with pytest.raises(BackboneError, match="no further request is sent"):
            await waiting
    assert len(endpoint.server.requests) == 1

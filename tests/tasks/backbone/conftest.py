"""What the backbone's tests share: the fake server, and settings that point at it and never wait long."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tasks.backbone.endpoint import retry_policy
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.protocol import Message, Reply, Request
from tasks.core.errors import BackboneError
from tasks.settings.backbone import BackboneSettings
from tests.support.fake_openai import FakeOpenAI, fake_openai

__all__ = ["fake_openai"]

KEY = "sk-test-1234567890abcdef"
ASK = Request((Message("user", "q"),))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat requests without a pause that one would notice."""
    monkeypatch.setattr(retry_policy, "FIRST_PAUSE_S", 0.001)


@pytest.fixture
def settings(fake_openai: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> BackboneSettings:
    """A backbone at the fake server, with a key, whose pauses are too short to notice."""
    monkeypatch.setenv("FAKE_API_KEY", KEY)
    return make_settings(fake_openai)


def make_settings(server: FakeOpenAI, **changes: Any) -> BackboneSettings:
    """Settings for the server, changed as asked."""
    plain: dict[str, Any] = {
        "name": "fake",
        "model": "fake-1",
        "base_url": server.base_url,
        "api_key_env": "FAKE_API_KEY",
        "max_wait_s": 0.01,
        "timeout_s": 5.0,
    }
    return BackboneSettings(**(plain | changes))


def asking(text: str = "q", **changes: Any) -> Request:
    """A request with this text."""
    return Request((Message("user", text),), **changes)


async def ask(settings: BackboneSettings, request: Request = ASK) -> Reply:
    """Send one request to the server of the settings."""
    async with EndpointBackbone(settings) as backbone:
        return await backbone.complete(request)


class Endpoint:
    """The fake server, and settings with which it is asked; each call may change some."""

    def __init__(self, server: FakeOpenAI, settings: BackboneSettings) -> None:
        self.server = server
        self.settings = settings

    def changed(self, **changes: Any) -> BackboneSettings:
        """The settings, changed as asked."""
        return self.settings.model_copy(update=changes)

    def open(self, **changes: Any) -> EndpointBackbone:
        """A backbone at the server."""
        return EndpointBackbone(self.changed(**changes))

    async def ask(self, request: Request = ASK, **changes: Any) -> Reply:
        """Send one request."""
        return await ask(self.changed(**changes), request)

    async def ask_all(self, count: int, schema: Mapping[str, Any] | None = None, **changes: Any) -> list[Any]:
        """Send so many requests at once, "0", "1", ...; return replies and errors."""
        requests = [asking(str(number), schema=schema) for number in range(count)]
        async with self.open(**changes) as backbone:
            return await asyncio.gather(*map(backbone.complete, requests), return_exceptions=True)

    async def failure(self, request: Request = ASK, **changes: Any) -> BackboneError:
        """Send one request, and return the error that it ends with."""
        with pytest.raises(BackboneError) as caught:
            await self.ask(request, **changes)
        return caught.value


@pytest.fixture
def endpoint(fake_openai: FakeOpenAI, settings: BackboneSettings) -> Endpoint:
    """The fake server with its settings."""
    return Endpoint(fake_openai, settings)

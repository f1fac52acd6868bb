"""What the backbone's tests share: the fake server, and settings that point at it and never wait long."""

from typing import Any

import pytest

from tasks.settings.backbone import BackboneSettings
from tests.support.fake_openai import FakeOpenAI, fake_openai

__all__ = ["fake_openai"]

KEY = "sk-test-1234567890abcdef"


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

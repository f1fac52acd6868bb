"""A key that a program prints, with a real program and a server that expects what it printed last."""

import sys
from pathlib import Path

import pytest

from tasks.backbone.endpoint import access as key_command
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.kind import check_backbone
from tasks.backbone.protocol import Message, Request
from tasks.core.errors import BackboneError, ConfigurationError
from tests.support.fake_openai import FakeOpenAI, unauthorized
from tests.tasks.backbone.conftest import make_settings

ASKED = Request((Message("user", "q"),))


def command(folder: Path, code: str) -> list[str]:
    (folder / "print_token.py").write_text(code)
    return [sys.executable, "-S", str(folder / "print_token.py")]


def counting(folder: Path) -> list[str]:
    """A program that prints token-1-secret, token-2-secret, ..."""
    file = folder / "runs"
    return command(
        folder,
        f"from pathlib import Path\nfile = Path({str(file)!r})\n"
        "runs = (file.read_text() if file.exists() else '') + 'x'\nfile.write_text(runs)\n"
        "print(f'token-{len(runs)}-secret')",
    )


async def test_an_expired_token_is_replaced_and_no_message_holds_one(
    fake_openai: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(fake_openai, api_key_env=None, api_key_command=counting(tmp_path))
    async with EndpointBackbone(settings) as backbone:
        await backbone.complete(ASKED)
        await backbone.complete(ASKED)
        monkeypatch.setattr(key_command, "KEPT_S", 0.0)
        backbone._access.command._valid_until = 0.0  # type: ignore[union-attr]  # three minutes later
        await backbone.complete(ASKED)
        fake_openai.script(unauthorized("token-3-secret or token-1-secret"))
        with pytest.raises(
            BackboneError, match="The key in the output of api_key_command is not accepted"
        ) as caught:
            await backbone.complete(ASKED)
    sent = [each.headers["authorization"] for each in fake_openai.requests]
    assert sent[:3] == ["Bearer token-1-secret"] * 2 + ["Bearer token-2-secret"]
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import sys; sys.exit('not logged in')", "exit code 1: not logged in"),
        ("print()", "it printed no key on one line"),
        ("print('WARNING: old'); print('token')", "it printed no key on one line"),
        (None, "FileNotFoundError"),
    ],
)
async def test_a_program_that_prints_no_key_is_reported_before_anything_is_sent(
    fake_openai: FakeOpenAI, tmp_path: Path, code: str | None, why: str
) -> None:
    program = command(tmp_path, code) if code else [str(tmp_path / "missing")]
    settings = make_settings(fake_openai, api_key_env=None, api_key_command=program)
    with pytest.raises(ConfigurationError, match=why):
        check_backbone(settings)
    async with EndpointBackbone(settings) as backbone:
        with pytest.raises(BackboneError, match=why) as caught:
            await backbone.complete(ASKED)
    assert (
        caught.value.fatal and caught.value.transient and not fake_openai.requests and not fake_openai.probes
    )


def test_two_settings_that_give_the_key_are_refused(fake_openai: FakeOpenAI) -> None:
    with pytest.raises(ConfigurationError, match="api_key_env and api_key_command both give the key"):
        check_backbone(make_settings(fake_openai, api_key_command=["true"]))

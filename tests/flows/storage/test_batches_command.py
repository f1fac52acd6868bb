"""`crosscheck batches`: states and cancellation, against servers of both protocols with a ledger."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flows.cli.program import crosscheck
from flows.storage.batches import find_batches
from tasks.backbone.cache.sqlite import SqliteReplyCache
from tasks.backbone.kinds.opening import Layers, open_backbone
from tasks.backbone.protocol import Message, Request
from tasks.core.errors import BackboneError
from tasks.settings.backbone import BackboneSettings
from tests.support.fake_batches import FakeAnthropicBatches, FakeOpenAIBatches
from tests.tasks.backbone.test_batches import Server, ask, bought_once, settings_of, texts


@pytest.fixture(params=[FakeOpenAIBatches, FakeAnthropicBatches])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with request.param() as server:
        yield server


async def cancel_while_waiting(
    folder: Path, settings: BackboneSettings, server: Server
) -> tuple[list[Any], list[Any]]:
    """Submit 4 requests, cancel their batch from another connection; return both outcomes."""
    server.seconds = 60
    waiting = asyncio.create_task(ask(folder, settings, 4))
    while not server.batches:
        await asyncio.sleep(0.02)
    with SqliteReplyCache(folder / "replies.sqlite") as cache:
        while not cache.batches(cache_address(settings)).kept()[0].batch_id:
            await asyncio.sleep(0.02)
        cancelled = await find_batches(settings, cache, ())
    return cancelled, await waiting


def cache_address(settings: BackboneSettings) -> str:
    from tasks.backbone.endpoint.formats.identity import address_of

    return address_of(settings)


async def test_a_cancelled_batch_loses_no_answer_and_nothing_is_bought_twice(
    server: Server, tmp_path: Path
) -> None:
    settings = settings_of(server)
    cancelled, replies = await cancel_while_waiting(tmp_path, settings, server)
    assert [(each.kept.requests, each.answered is not None) for each in cancelled] == [(4, True)]
    failed = [each for each in replies if isinstance(each, BackboneError)]
    assert len(failed) == 2 and all(each.transient for each in failed)
    server.seconds = 0.05
    assert texts(await ask(tmp_path, settings, 4)) == [f"reply to: question {n}" for n in range(4)]
    assert bought_once(server, 4) and len(server.batches) == 2
    with SqliteReplyCache(tmp_path / "replies.sqlite") as cache:
        found = await find_batches(settings, cache)
    assert [each.ended for each in found] == [True, True]
    assert [each.kept.seconds for each in found] == pytest.approx([90.0, 90.0], abs=1)


async def test_an_unknown_id_cancels_nothing(server: Server, tmp_path: Path) -> None:
    settings = settings_of(server)
    await ask(tmp_path, settings, 2)
    with (
        SqliteReplyCache(tmp_path / "replies.sqlite") as cache,
        pytest.raises(Exception, match="no batch of this endpoint"),
    ):
        await find_batches(settings, cache, ("batch_other",))


async def test_a_batch_that_the_provider_no_longer_has_is_said_to_be_gone(
    server: Server, tmp_path: Path
) -> None:
    settings = settings_of(server)
    server.seconds = 60
    waiting = asyncio.create_task(ask(tmp_path, settings, 2))
    while not server.batches:
        await asyncio.sleep(0.02)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    with SqliteReplyCache(tmp_path / "replies.sqlite") as cache:
        (kept,) = cache.batches(cache_address(settings)).kept()
        cache.batches(cache_address(settings)).submitted(kept.token, "batch_lost")
        (found,) = await find_batches(settings, cache, ())
    assert found.ended and found.status.startswith("gone")


def test_the_command_shows_batches_and_cancels_after_a_confirmation(
    openai_batches: FakeOpenAIBatches, tmp_path: Path
) -> None:
    settings = settings_of(openai_batches, name="mine")
    openai_batches.seconds = 60

    async def submit() -> None:
        with SqliteReplyCache(tmp_path / "home" / "replies.sqlite") as cache:
            async with open_backbone(settings, Layers(cache)) as backbone:
                asked = asyncio.create_task(backbone.complete(Request((Message("user", "question"),))))
                while not cache.batches(cache_address(settings)).kept() or not openai_batches.batches:
                    await asyncio.sleep(0.02)
                await asyncio.sleep(0.2)
                asked.cancel()

    (tmp_path / "home").mkdir()
    asyncio.run(submit())
    file = tmp_path / "mine.yaml"
    file.write_text(
        f"model: fake-1\nbase_url: {openai_batches.base_url}\ntier: batch\nresponse_mode: text\n"
        "prices:\n  input: 1\n  output: 1\n  as_of: 2026-01-01\n",
        encoding="utf-8",
    )
    words = ["batches", str(file), "--home", str(tmp_path / "home")]
    shown = run(words)
    assert "batch_0" in shown and "in_progress" in shown and "Not ended: 1" in shown
    refused = CliRunner().invoke(crosscheck, [*words, "--cancel-all"], input="n\n")
    assert refused.exit_code == 1 and openai_batches.batches["batch_0"].status == ""
    found = json.loads(run([*words, "--cancel", "batch_0", "--yes", "--json"]))
    assert [(each["id"], each["status"], each["ended"]) for each in found["batches"]] == [
        ("batch_0", "cancelled", True)
    ]


@pytest.fixture
def openai_batches(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeOpenAIBatches]:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with FakeOpenAIBatches() as server:
        yield server


def run(words: list[str]) -> str:
    ran = CliRunner().invoke(crosscheck, words)
    assert ran.exit_code == 0, ran.output
    return ran.stdout

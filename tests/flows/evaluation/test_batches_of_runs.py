"""An evaluation in batches says how long it may take, by how long earlier batches took."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.conftest import answer_as_offline
from tests.support.command_line import CommandLine
from tests.support.fake_batches import FakeOpenAIBatches

pytestmark = pytest.mark.slow


@pytest.fixture
def server() -> Iterator[FakeOpenAIBatches]:
    with FakeOpenAIBatches() as server:
        server.answer = answer_as_offline
        yield server


def test_the_expected_time_is_that_of_earlier_batches(
    demo: CommandLine, server: FakeOpenAIBatches, tmp_path: Path
) -> None:
    file = tmp_path / "batches.yaml"
    file.write_text(
        f"model: fake-1\nbase_url: {server.base_url}\ntier: batch\nresponse_mode: json_object\n"
        "batch_quiet_s: 0.5\nbatch_poll_s: 0.1\n"
        "prices: {input: 2, output: 4, as_of: 2026-11-01, batch: {input: 1, output: 2}}\n",
        encoding="utf-8",
    )
    options = ("evaluate", "--backbone", str(file), "--limit", "3", "--pipeline", "rsl-sql", "--json")
    first = demo.run(*options)
    assert first.code == 0, first.err
    rounds = first.json["forecast"]["rounds"]
    assert f"Up to {rounds} batches follow each other. No earlier batch" in first.err
    assert len(server.batches) <= rounds
    # The provider says that each batch took 90 seconds.
    second = demo.run(*options, "--set", "backbone.epoch=again")
    assert f"about {rounds * 90 // 60} min" in second.err and "if each takes 1 min 30 s" in second.err

"""Processes that submit batches are killed at any moment: the provider's ledger has each request once."""

import os
import random
import time
from pathlib import Path

import pytest

from tests.promises.table import PROMISES
from tests.support.command_line import start_module
from tests.support.counting import Count
from tests.support.fake_batches import FakeAnthropicBatches, FakeOpenAIBatches

QUESTIONS = 20
SERVERS = {"openai": FakeOpenAIBatches, "anthropic": FakeAnthropicBatches}
KILLS = PROMISES["batches"].faults // len(SERVERS)
"""SIGKILLs for each protocol."""
EXPECTED = sorted(f"reply to: {stage} {n}" for stage in ("first", "second") for n in range(QUESTIONS))


def killed_or_ended(arguments: list[str], begun: Path, limit: float | None) -> tuple[bool, str]:
    """Run the process, and kill it so many seconds after its first request.

    Returns:
        Whether it was killed, and its output.
    """
    process = start_module("tests.support.batch_process", arguments, os.environ)
    while not begun.exists() and process.poll() is None:
        time.sleep(0.005)
    begun.unlink(missing_ok=True)
    end = time.monotonic() + (limit or 0)
    while limit is not None and process.poll() is None and time.monotonic() < end:
        time.sleep(0.002)
    killed = limit is not None and process.poll() is None
    if killed:
        process.kill()
    output, _ = process.communicate(timeout=60)
    return killed, output


@pytest.mark.slow
@pytest.mark.promise("batches")
def test_nothing_is_bought_twice_by_processes_that_are_killed(tmp_path: Path, count: Count) -> None:
    moments: set[tuple[int, int]] = set()
    for kind, server_of in SERVERS.items():
        dice, kills, rounds = random.Random(kind), 0, 0
        while kills < KILLS:
            folder = tmp_path / f"{kind} {rounds}"
            folder.mkdir()
            rounds, killed, names = rounds + 1, True, []
            with server_of() as server:
                server.seconds = 0.3
                arguments = [kind, server.base_url, str(folder), str(QUESTIONS)]
                while killed:
                    limit = dice.uniform(0.0, 1.0) if kills < KILLS else None
                    killed, output = killed_or_ended(arguments, folder / "begun", limit)
                    if killed:
                        kills += 1
                        names.append(f"{kind}, kill {kills}")
                        moments.add((len(server.batches), len(server.ledger)))
                for name in names:
                    with count.fault(name):
                        assert sorted(output.splitlines()) == EXPECTED
                twice = sum(times - 1 for times in server.ledger.values())
                count.answers(lost=len(EXPECTED) - len(server.ledger), twice=twice)
    assert len(moments) > 1, "all processes were killed at the same moment"

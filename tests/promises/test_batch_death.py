"""Processes that submit batches are killed at any moment: the provider's ledger has each request once."""

import os
import random
import time
from collections.abc import Callable
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
CALLS = 15
"""A process is killed after fewer HTTP requests than this: about as many as one makes that is let alone."""
EXPECTED = sorted(f"reply to: {stage} {n}" for stage in ("first", "second") for n in range(QUESTIONS))


def killed_or_ended(
    arguments: list[str], begun: Path, reached: Callable[[], bool] | None
) -> tuple[bool, str]:
    """Run the process, and kill it when it has begun and the server has reached a state; None: let it end.

    Returns:
        Whether it was killed, and its output.
    """
    process = start_module("tests.support.batch_process", arguments, os.environ)
    while reached and process.poll() is None and not (begun.exists() and reached()):
        time.sleep(0.002)
    killed = reached is not None and process.poll() is None
    if killed:
        process.kill()
    output, _ = process.communicate(timeout=60)
    begun.unlink(missing_ok=True)
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
                    last = server.arrived + dice.randrange(CALLS)
                    reached = (lambda last=last: server.arrived >= last) if kills < KILLS else None
                    killed, output = killed_or_ended(arguments, folder / "begun", reached)
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

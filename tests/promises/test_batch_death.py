"""Processes that submit batches are killed at any moment: the provider's ledger has each request once."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.fake_batches import FakeAnthropicBatches, FakeOpenAIBatches

ROOT = Path(__file__).parents[2]
QUESTIONS = 20
KILLS = int(os.environ.get("CROSSCHECK_BATCH_KILLS", "8"))
"""SIGKILLs for each protocol."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_nothing_is_bought_twice_by_processes_that_are_killed(kind: str, tmp_path: Path) -> None:
    dice = random.Random(kind)
    with FakeAnthropicBatches() if kind == "anthropic" else FakeOpenAIBatches() as server:
        server.seconds = 0.3
        arguments = [kind, server.base_url, "", str(QUESTIONS)]
        kills, rounds, moments = 0, 0, set()
        while kills < KILLS:
            folder = tmp_path / f"{rounds}"
            folder.mkdir()
            arguments[2] = str(folder)
            server.ledger.clear()
            server.batches.clear()
            rounds += 1
            while True:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tests.support.batch_process", *arguments],
                    cwd=ROOT,
                    stdout=subprocess.PIPE,
                    text=True,
                )
                while not (folder / "begun").exists() and process.poll() is None:
                    time.sleep(0.005)
                began, limit = time.monotonic(), dice.uniform(0.0, 1.0)
                while kills < KILLS and process.poll() is None and time.monotonic() - began < limit:
                    time.sleep(0.002)
                if kills < KILLS and process.poll() is None:
                    process.kill()
                    kills += 1
                    moments.add((len(server.batches), len(server.ledger)))
                (folder / "begun").unlink(missing_ok=True)
                output, _ = process.communicate(timeout=60)
                if process.returncode == 0:
                    break
            answers = sorted(output.splitlines())
            asked = [f"{stage} {n}" for stage in ("first", "second") for n in range(QUESTIONS)]
            assert answers == sorted(f"reply to: {text}" for text in asked)
            assert set(server.ledger.values()) == {1} and len(server.ledger) == 2 * QUESTIONS
    assert len(moments) > 2, "all processes were killed at the same moment"

"""Regular expressions: linear on the worst text that can be made of their own characters, or on bounded texts."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from signal import SIGINT

import pytest

from tasks.backbone.replies.sql_text import MAX_SELECT
from tests.support.command_line import CommandLine, end
from tests.support.fake_openai import FakeOpenAI
from tests.support.patterns import Use, _give_up, is_linear

pytestmark = pytest.mark.slow

BOUNDED = {"tasks.backbone.replies.sql_text:_FROM": MAX_SELECT}
"""Patterns, by name or by the function that writes them, whose texts are cut to so many characters before."""
REPLY = 15 * 1024 * 1024
"""Bytes of a long reply; the limit is 16 MiB."""


def test_every_pattern_is_linear() -> None:
    bounds = [f"{name}={longest}" for name, longest in BOUNDED.items()]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.support.patterns", *bounds],
        capture_output=True, text=True, timeout=900, cwd=Path(__file__).parents[2], check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) > 150
    assert [line for line in lines if not line.endswith(" linear")] == []


def test_growth_tells_linear_patterns_from_others() -> None:
    signal.signal(signal.SIGPROF, _give_up)
    for pattern, linear in {r"\w+\d": False, r"\s+$": False, r"\w+": True, r"(?<!\s)\s++$": True}.items():
        use = Use("", re.compile(pattern), "search")
        assert all(is_linear(use, f"-{sign * 500}-", f"-{sign * 8000}-") for sign in " a") is linear, pattern


def test_a_run_with_endless_replies_ends(
    crosscheck: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    texts = iter(
        ["x" * REPLY, "/*x*/" * (REPLY // 5), "select from [" * (REPLY // 13), "x://" * (REPLY // 4)]
    )
    model.answer = lambda _: next(texts, "SELECT 1")
    began = time.monotonic()
    ran = crosscheck.run("evaluate", "--backbone", backbone_file, "--limit", "4", "--pipeline", "zero-shot")
    assert ran.code in (0, 3), ran.err
    assert time.monotonic() - began < 200


def test_ctrl_c_is_heard_while_a_long_reply_is_read(
    crosscheck: CommandLine, backbone_file: str, model: FakeOpenAI
) -> None:
    model.answer = lambda _: "x" * REPLY
    options = ("--limit", "2", "--set", "backbone.concurrency=2")
    running = crosscheck.start("evaluate", "--backbone", backbone_file, "--pipeline", "zero-shot", *options)
    model.wait_for(2)
    began = time.monotonic()
    ended = end(running, SIGINT, timeout=60)
    assert ended.code == 130, ended.err
    assert time.monotonic() - began < 60

"""What an evaluation says of the size of its working folder."""

import os
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

pytestmark = pytest.mark.slow


def test_a_run_says_that_the_working_folder_is_large_or_why_its_size_is_unknown(
    demo: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = ("evaluate", "--limit", "1", "--pipeline", "zero-shot")
    large = demo.run(*few, "--set", "tracking.folder_limit_gb=0.000001")
    assert large.code == 0
    assert 'more than 1e-06 GB (tracking.folder_limit_gb): "crosscheck clean --dry-run" shows' in large.out
    deep = demo.home / "another program's"
    deep.mkdir()
    monkeypatch.chdir(deep)
    for _ in range(20):  # a path that is too long for the system cannot be looked into, even by root
        Path("d" * 250).mkdir()
        os.chdir("d" * 250)
    monkeypatch.chdir(demo.home)
    unknown = demo.run(*few)
    assert unknown.code == 0, unknown.err
    assert "The size of the working folder is unknown: " in unknown.out

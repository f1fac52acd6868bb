"""The unit file that starts `crosscheck up` after a reboot."""

import configparser
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import ROOT
from tests.support.in_process import run

FILE = ROOT / "deployments" / "crosscheck.service"


def test_it_runs_a_command_that_exists_and_restarts_it() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read_string(FILE.read_text(encoding="utf-8"))
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/.venv/bin/crosscheck")
    assert run(*words, "--help").code == 0
    assert unit["Service"]["Restart"] == "on-failure" and unit["Install"]["WantedBy"] == "default.target"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd to check the file with")
def test_systemd_finds_no_mistake_in_it(tmp_path: Path) -> None:
    copy = tmp_path / "crosscheck.service"
    text = FILE.read_text(encoding="utf-8").replace("%h/crosscheck/.venv/bin/crosscheck", sys.executable)
    copy.write_text(text, encoding="utf-8")
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--user", str(copy)],
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (checked.returncode, checked.stderr) == (0, "")

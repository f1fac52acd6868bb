"""An evaluation's own Prefect server that the system kills, or somebody stops, in the middle of a run."""

import os
import signal
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest

from flows.orchestration.server import LocalServer
from tasks.settings.home import Home
from tests.support.command_line import wait_until

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_it_is_started_again_at_the_same_address(
    how: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("PREFECT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))

    def servers() -> list[psutil.Process]:
        return [
            each for each in psutil.Process().children() if "flows.orchestration.server" in each.cmdline()
        ]

    def answers() -> bool:
        try:
            with urlopen(f"{url}/health", timeout=2) as response:
                return servers() != [first] and response.status == 200
        except OSError:
            return False

    before = servers()
    with LocalServer(Home(tmp_path)) as server:
        url = server.wait()
        (first,) = (each for each in servers() if each not in before)
        first.send_signal(how)
        wait_until(lambda: not first.is_running() or first.status() == psutil.STATUS_ZOMBIE)
        wait_until(answers)
        assert len(servers()) == len(before) + 1
    assert servers() == before

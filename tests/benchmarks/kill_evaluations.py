"""Kill evaluations and re-runs at random moments, continue them, and print what that cost.

    python tests/benchmarks/kill_evaluations.py --kills 100 --minutes 15

Every command is killed up to four times (SIGKILL) and then given once more, to its end. Its final table has to be that
of an undisturbed run, and no request may be sent again whose answer was stored.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from signal import SIGKILL

import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.flows.conftest import answer_as_offline
from tests.support import command_line
from tests.support.command_line import CommandLine
from tests.support.death import Deaths, moment, same
from tests.support.fake_openai import FakeOpenAI

MOST_PER_RUN = 4


def main() -> None:
    """Run the series and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    deadline = time.monotonic() + 60 * chosen.minutes
    rng = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory() as folder, FakeOpenAI() as server:
        place = Path(folder)
        server.answer, server.latency = answer_as_offline, 0.1
        built = command_line.built_demo.__wrapped__(_Factory(place))
        url = next(servers := command_line.prefect_server.__wrapped__(_Factory(place)))
        backbone = place / "local.yaml"
        settings = {
            "kind": "openai",
            "model": "m",
            "base_url": server.base_url,
            "concurrency": 8,
            "retries": 1,
        }
        backbone.write_text(yaml.safe_dump(settings), encoding="utf-8")
        evaluate = ("evaluate", "--backbone", str(backbone), "--limit", "8", "--json")
        rerun = ("rerun", "latest", "--only", "wrong", "--json")
        home = place / "home"
        crosscheck = CommandLine(
            home,
            {
                "PREFECT_API_URL": url,
                "PREFECT_HOME": str(home / "prefect"),
                "PREFECT_LOCAL_STORAGE_PATH": str(home / "prefect" / "storage"),
                "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "prefect" / "storage"),
            },
        )

        def begin(source: Path) -> None:
            server.requests.clear()
            shutil.rmtree(home, ignore_errors=True)
            shutil.copytree(source, home)

        sources, wanted, requests = {evaluate: built}, {}, {}
        for arguments in (evaluate, rerun):
            begin(sources[arguments])
            wanted[arguments] = same(Deaths(crosscheck, server, arguments).finish())
            requests[arguments] = len(server.requests)
            if arguments == evaluate:
                sources[rerun] = place / "evaluated"
                shutil.copytree(home, sources[rerun])
        total = {"kills": 0, "runs": 0, "equal": 0, "lost": 0, "twice": 0, "in_flight": 0, "requests": 0}
        while total["kills"] < chosen.kills and time.monotonic() < deadline:
            # A killed re-run is not "latest": only a finished run is.
            arguments = evaluate if rng.random() < 0.8 else rerun
            begin(sources[arguments])
            deaths = Deaths(crosscheck, server, arguments)
            for _ in range(rng.randint(1, MOST_PER_RUN)):
                total["kills"] += deaths.die((SIGKILL,), *moment(rng, max(1, requests[arguments] // 2)))
            ended = deaths.finish()
            total["runs"] += 1
            total["equal"] += ended.code == 0 and same(ended) == wanted[arguments]
            total["requests"] += len(server.requests)
            for name in ("lost", "twice", "in_flight"):
                total[name] += getattr(deaths, name)
            print(total, flush=True)
        next(servers, None)


class _Factory:
    """Stands in for pytest's factory of folders."""

    def __init__(self, place: Path) -> None:
        self._place = place

    def mktemp(self, name: str) -> Path:
        """Make a folder."""
        folder = self._place / name
        folder.mkdir()
        return folder


if __name__ == "__main__":
    main()

"""Kill evaluations, re-runs, nights and `clean` at random moments, continue them, and print what that cost.

    python tests/benchmarks/kill_evaluations.py --kills 100 --minutes 40

Each is killed up to four times (SIGKILL) and then started once more, to its end. Its result has to be that of an
undisturbed one, and no request may be sent again whose answer was stored. Shards: see tests/flows/sharding.
"""

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from signal import SIGKILL

import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.flows.conftest import answer_as_offline
from tests.support import command_line
from tests.support.death import Deaths, moment
from tests.support.fake_openai import FakeOpenAI
from tests.support.killed import Killed, kinds

MOST_PER_RUN = 4


class Series:
    """The series of one kind: what an undisturbed process comes to, and what killed ones did."""

    def __init__(self, killed: Killed, home: Path, environment: dict[str, str], server: FakeOpenAI) -> None:
        self.killed = killed
        self.server = server
        self.home = home
        self.line = killed.line(home, environment)
        self.total: Counter[str] = Counter()
        self.begin()
        began = time.monotonic()
        self.wanted = killed.found(Deaths(self.line, server, killed.arguments).finish())
        self.seconds, self.requests = time.monotonic() - began, len(server.requests)

    def begin(self) -> None:
        """Make the working folder anew."""
        self.server.requests.clear()
        shutil.rmtree(self.home, ignore_errors=True)
        self.killed.prepare(self.home)

    def kill(self, rng: random.Random, times: int) -> None:
        """Kill a process several times, and continue it to its end."""
        self.begin()
        deaths = Deaths(self.line, self.server, self.killed.arguments)
        for _ in range(times):
            after, pause = moment(rng, max(1, self.requests // 2))
            if not self.requests:
                pause = rng.random() * self.seconds
            self.total["kills"] += deaths.die((SIGKILL,), after, pause)
        ended = deaths.finish()
        self.total["processes"] += 1
        self.total["equal"] += ended.code == 0 and self.killed.found(ended) == self.wanted
        self.total["requests"] += len(self.server.requests)
        for name in ("lost", "twice", "in_flight"):
            self.total[name] += getattr(deaths, name)


def main() -> None:
    """Run the series and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    deadline = time.monotonic() + 60 * chosen.minutes
    rng = random.Random(chosen.seed)
    with tempfile.TemporaryDirectory() as folder, FakeOpenAI() as server:
        place, home = Path(folder), Path(folder) / "home"
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
        environment = {
            "PREFECT_API_URL": url,
            "PREFECT_HOME": str(home / "prefect"),
            "PREFECT_LOCAL_STORAGE_PATH": str(home / "prefect" / "storage"),
            "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "prefect" / "storage"),
        }
        series: dict[str, Series] = {}
        for name, killed in kinds(built, place, str(backbone), home).items():
            series[name] = Series(killed, home, environment, server)
            print(
                f"{name}: {series[name].requests} requests, {series[name].seconds:.0f} s undisturbed",
                flush=True,
            )
            if name == "evaluation":
                shutil.copytree(home, place / "evaluated")
        while (
            sum(each.total["kills"] for each in series.values()) < chosen.kills
            and time.monotonic() < deadline
        ):
            name = rng.choices(list(series), (4, 2, 2, 2))[0]
            series[name].kill(rng, rng.randint(1, MOST_PER_RUN))
            print(json.dumps({name: each.total for name, each in series.items()}), flush=True)
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

"""Kill evaluations, re-runs, nights, shards and `clean` at random moments, continue them, and print what that cost.

    python tests/benchmarks/kill_evaluations.py --kills 100 --minutes 40
    python tests/benchmarks/kill_evaluations.py --kinds shard --kills 12        # needs PostgreSQL

Each is killed up to six times (SIGKILL) and then started once more, to its end. Its result has to be that of an
undisturbed one, and no request may be sent again whose answer was stored. Of an evaluation in shards either its own
process is killed, and the same command continues it, or a machine with its worker and shards dies under it.

A try during which this script was itself stopped for seconds, and its model server with it, says nothing: it counts as void.
"""

import json
import random
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGKILL

import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))
from tasks.backbone.cache.store import open_reply_cache
from tests.benchmarks.parts import options_of
from tests.flows.conftest import answer_as_offline
from tests.support import command_line
from tests.support.command_line import CommandLine, wait_until
from tests.support.death import ASKING, Deaths, Moment, same
from tests.support.fake_openai import Body, FakeOpenAI
from tests.support.killed import Outcome, Series, difference, evaluate_with_failures, kinds
from tests.support.postgres import new_database
from tests.support.team import UNFINISHED, Team

KINDS = ("evaluation", "re-run", "night", "clean", "shard")
MOST_PER_RUN = 6
LIMIT = 8
SHARDS, QUESTIONS_OF_SHARDS, CONCURRENCY = 2, 40, 8
LATENCY, LATENCY_OF_SHARDS = 0.2, 1.0
STOPPED_S = 5.0
"""A thread that wants to look every tenth of a second and comes as late as this was stopped."""


class Watch(threading.Thread):
    """Notices that this process was stopped.

    Attributes:
        stopped: how often.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.stopped = 0
        self.start()

    def run(self) -> None:
        while True:
            before = time.monotonic()
            time.sleep(0.1)
            self.stopped += time.monotonic() - before > STOPPED_S


class Shards:
    """Evaluations in shards, on machines of a team: processes with nothing but the stores and Prefect's server in common."""

    def __init__(self, team: Team, server: FakeOpenAI, backbone: str, replies: str) -> None:
        self.team = team
        self.server = server
        self.replies = replies
        self.words = (
            "evaluate", "--backbone", backbone, "--pipeline", "few-shot", "--json", "--limit", str(QUESTIONS_OF_SHARDS),
            "--shards", str(SHARDS),
        )  # fmt: skip
        self.started = 0
        self.machines = ["a", "b"]
        for machine in self.machines:
            team.start_worker(machine)
        deaths = self._begin()
        ended = deaths.finish()
        assert ended.code == 0, ended.err
        self.wanted, self.took, self.requests = same(ended), deaths.took, len(server.requests)

    def kill(self, rng: random.Random) -> Outcome:
        """Kill its own process once or twice, and at times one of the machines, and continue it to its end."""
        deaths, kills, ended = self._begin(), 0, None
        for _ in range(rng.randint(1, 2)):
            kills += deaths.die((SIGKILL,), self._moment(rng, deaths.not_asked))
        if rng.random() < 0.5:
            was_alive, ended = deaths.survive(self._lose_a_machine, self._moment(rng, deaths.not_asked))
            kills += was_alive
        if ended is None:
            ended = deaths.finish()
        wait_until(lambda: not self.team.flow_runs(*UNFINISHED))
        return Outcome(deaths, kills, difference(ended, same, self.wanted))

    def _moment(self, rng: random.Random, not_asked: int) -> Moment:
        if not_asked and rng.random() < 0.5:
            return Moment(ASKING, rng.randint(1, not_asked), rng.random() * self.server.latency)
        phase = rng.choice([*self.took])
        return Moment(phase if not_asked else "", 0, rng.random() * min(self.took[phase], 10.0))

    def _lose_a_machine(self) -> None:
        self.team.lose(self.machines.pop(0))
        self.started += 1
        self.machines.append(f"new{self.started}")
        self.team.start_worker(self.machines[-1])

    def _begin(self) -> Deaths:
        """Forget every answer."""
        self.server.requests.clear()
        self.server.latency = LATENCY_OF_SHARDS
        with open_reply_cache(self.replies) as cache:
            for model in cache.stats().models:
                cache.prune(model.model)
        shutil.rmtree(self.team.stores["CROSSCHECK_STAGES"], ignore_errors=True)
        return Deaths(self.team.shell("parent"), self.server, self.words, self.replies, QUESTIONS_OF_SHARDS)


@contextmanager
def shards(place: Path, server: FakeOpenAI, backbone: str) -> Iterator[Shards]:
    """Yield a team with two workers."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with new_database() as replies, new_database() as prefect:
        stores = {"CROSSCHECK_REPLIES": replies, "CROSSCHECK_STAGES": str(place / "stages")}
        team = Team(place / "team", port, prefect.replace("postgresql://", "postgresql+asyncpg://"), stores)
        team.folder.mkdir()
        try:
            team.start_server()
            team.deploy()
            yield Shards(team, server, backbone, replies)
        finally:
            team.stop()


def main() -> int:
    """Run the series and print its figures; the exit code is 1 if a table differs or an answer was lost or bought twice."""
    parser = options_of(__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=40.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS[:4])
    chosen = parser.parse_args()
    deadline, rng, watch = time.monotonic() + 60 * chosen.minutes, random.Random(chosen.seed), Watch()
    totals = {kind: Counter[str]() for kind in chosen.kinds}
    with ExitStack() as opened:
        place = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        server = opened.enter_context(FakeOpenAI())
        answers: dict[str, str] = {}

        def answer(body: Body) -> str:
            key = str(body["messages"])
            return answers.get(key) or answers.setdefault(key, answer_as_offline(body))

        server.answer, server.latency = answer, LATENCY
        backbone = place / "local.yaml"
        settings = {"kind": "openai", "model": "m", "base_url": server.base_url, "concurrency": CONCURRENCY}
        # A server that is stopped or busy for minutes is waited for: it is not what is looked at here.
        rest = {"retries": 1, "timeout_s": 1200.0}
        backbone.write_text(yaml.safe_dump({**settings, **rest}), encoding="utf-8")
        ready: dict[str, Callable[[], Outcome]] = {}
        if {*chosen.kinds} - {"shard"}:
            ready |= _alone(chosen.kinds, place, server, str(backbone), rng, opened)
        if "shard" in chosen.kinds:
            team = opened.enter_context(shards(place, server, str(backbone)))
            ready["shard"] = lambda: team.kill(rng)
            print(f"shard: {team.requests} requests, {_seconds(team.took)} undisturbed", flush=True)
        while sum(each["kills"] for each in totals.values()) < chosen.kills and time.monotonic() < deadline:
            kind = min(totals, key=lambda kind: totals[kind]["kills"] * (0.5 if kind == "evaluation" else 1))
            before = watch.stopped
            _count(kind, totals[kind], ready[kind](), stopped=watch.stopped > before)
    wrong = sum(each["unequal"] + each["lost"] + each["twice"] for each in totals.values())
    print(json.dumps({"all": sum(totals.values(), Counter())}), flush=True)
    return int(wrong > 0)


def _alone(
    wanted: list[str], place: Path, server: FakeOpenAI, backbone: str, rng: random.Random, opened: ExitStack
) -> dict[str, Callable[[], Outcome]]:
    """Return what kills each of the kinds that need one machine alone."""
    home = place / "home"
    built = command_line.built_demo.__wrapped__(_Factory(place))
    url = next(servers := command_line.prefect_server.__wrapped__(_Factory(place)))
    opened.callback(next, servers, None)
    storage = str(home / "prefect" / "storage")
    environment = {
        "PREFECT_API_URL": url,
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_LOCAL_STORAGE_PATH": storage,
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": storage,
    }
    there = kinds(built, place, backbone, home, LIMIT)
    if "re-run" in wanted:
        line = CommandLine(home, environment)
        evaluate_with_failures(line, server, there["evaluation"], place / "evaluated", LIMIT)
    found: dict[str, Callable[[], Outcome]] = {}
    for kind in (each for each in there if each in wanted):
        series = Series(there[kind], there[kind].line(home, environment), server)
        print(f"{kind}: {series.requests} requests, {_seconds(series.took)} undisturbed", flush=True)

        def kill(series: Series = series) -> Outcome:
            return series.kill(rng, rng.randint(1, MOST_PER_RUN))

        found[kind] = kill
    return found


def _seconds(took: dict[str, float]) -> str:
    return ", ".join(f"{seconds:.1f} s {phase}" for phase, seconds in took.items())


def _count(kind: str, total: Counter[str], outcome: Outcome, *, stopped: bool) -> None:
    """Add what became of a try and print it."""
    if stopped:
        total["void"] += 1
        print(f"{kind}: void, because this script was stopped", flush=True)
        return
    deaths = outcome.deaths
    total["kills"] += outcome.kills
    total["processes"] += 1
    total["unequal" if outcome.difference else "equal"] += 1
    total["requests"] += len(deaths.server.requests)
    for name in ("lost", "twice", "in_flight"):
        total[name] += getattr(deaths, name)
    for phase, count in deaths.moments.items():
        total[f"killed {phase}"] += count
    print(json.dumps({kind: total}), flush=True)
    if outcome.difference:
        print(f"{kind} UNEQUAL: {outcome.difference}", flush=True)


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
    sys.exit(main())

r"""How fast an evaluation is beside a plain loop that sends the same requests. A script, not a test:

    python tests/benchmarks/speed_of_an_evaluation.py [--questions 113] [--latency 1.0] [--in-flight 32] [--tail 0]
    python tests/benchmarks/speed_of_an_evaluation.py --benchmark spider-dev --pipeline rsl-sql --questions 972 \
        --in-flight 128 --data FOLDER
    python tests/benchmarks/speed_of_an_evaluation.py --grid         # several latencies and numbers in flight

It evaluates a benchmark against a local API of a set latency, sends the same requests once more with an event loop of
its own (the same client, as many in flight, as many in a chain as the pipeline asks one after the other; no Prefect,
no cache, no SQL, no scoring), and evaluates again from the cache. It prints
- the share of plain: the plain loop's time over the evaluation's, from the opening of its stores until everything is
  recorded and logged, and over that of the whole command;
- milliseconds of CPU per call: of the command without Prefect's server, of that server, and of the plain loop;
- bytes of Prefect's database per call, and the time of the cached re-run.

Seconds depend on what else the machine does; compare the shares of one line.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))

from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.endpoint.client import OpenAIBackbone
from tasks.backbone.protocol import Message, Request
from tasks.settings.backbone import BackboneSettings
from tests.benchmarks.local_api import local_api
from tests.support.command_line import CommandLine

GRID = ((1.0, 32), (1.0, 128), (0.1, 64))


@dataclass
class Measured:
    """One command."""

    result: Any
    seconds: float
    cpu_s: float
    server_cpu_s: float
    memory_mb: float
    """Highest resident memory of the evaluating process."""


def measure(command: CommandLine, *arguments: str) -> Measured:
    """Run a command; the CPU time of Prefect's server is counted apart."""
    started = time.monotonic()
    process = command.start_anew(*arguments)
    seen: dict[int, tuple[bool, float]] = {}
    parent, memory = psutil.Process(process.pid), 0
    with tempfile.TemporaryFile("w+") as out:
        while process.poll() is None:
            with suppress(psutil.Error):
                memory = max(memory, parent.memory_info().rss)
                for each in (parent, *parent.children(recursive=True)):
                    with suppress(psutil.Error):
                        times = each.cpu_times()
                        server = "flows.orchestration.server" in each.cmdline()
                        seen[each.pid] = (server, times.user + times.system)
            with suppress(Exception):
                text, _ = process.communicate(timeout=0.25)
                out.write(text)
        seconds = time.monotonic() - started
        out.seek(0)
        result = json.loads(out.read())
    here = sum(cpu for server, cpu in seen.values() if not server)
    there = sum(cpu for server, cpu in seen.values() if server)
    return Measured(result, seconds, here, there, memory / 1e6)


def requests_in(home: Path) -> list[Request]:
    """Return the requests that an evaluation has sent, in the order of their replies."""
    with open_reply_cache(home / "replies.sqlite") as cache:
        found = [entry.request for entry in cache.entries()]
    return [
        Request(tuple(Message(role, content) for role, content in each["messages"]), each.get("schema"))
        for each in reversed(found)
    ]


def plain(requests: Sequence[Request], chains: int, url: str, in_flight: int) -> tuple[float, float]:
    """Send requests in as many chains as there were questions; return seconds and seconds of CPU."""
    waiting = [requests[number::chains] for number in range(chains)]

    async def work(client: OpenAIBackbone) -> None:
        while waiting:
            for request in waiting.pop():
                await client.complete(request)

    async def run() -> tuple[float, float]:
        settings = BackboneSettings(name="local", model="local", base_url=url, concurrency=in_flight)
        async with OpenAIBackbone(settings) as client:
            started, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*(work(client) for _ in range(min(in_flight, chains))))
            return time.perf_counter() - started, time.process_time() - cpu

    return asyncio.run(run())


def compare(chosen: argparse.Namespace, latency: float, in_flight: int) -> None:
    with tempfile.TemporaryDirectory() as folder, local_api(latency, chosen.tail) as url:
        backbone = Path(folder) / "local.yaml"
        settings = {"model": "local", "base_url": url, "concurrency": in_flight}
        backbone.write_text(yaml.safe_dump(settings), encoding="utf-8")
        command = CommandLine(Path(folder) / "home")
        what = ("--benchmark", chosen.benchmark, "--pipeline", chosen.pipeline, "--data", chosen.data)
        arguments = ("evaluate", "--backbone", str(backbone), *what, "--json")
        limit = ("--limit", str(chosen.questions))
        command.run(*arguments, "--limit", "1", "--backbone", "offline")  # builds the demo and the stores
        size = database_bytes(command.home)
        first = measure(command, *arguments, *limit)
        size = database_bytes(command.home) - size
        requests = requests_in(command.home)
        plain_s, plain_cpu = plain(requests, first.result["questions"], url, in_flight)
        again = measure(command, *arguments, *limit)
    calls, per_call = first.result["calls"], 1000 / first.result["calls"]
    print(
        f"{calls} calls of {latency} s, {in_flight} in flight{f', tail {chosen.tail}' if chosen.tail else ''}: "
        f"plain {plain_s:.1f} s; evaluation {first.result['seconds']:.1f} s, share "
        f"{plain_s / first.result['seconds']:.2f}; command {first.seconds:.1f} s, share {plain_s / first.seconds:.2f}"
    )
    print(
        f"  CPU per call: {first.cpu_s * per_call:.2f} ms, Prefect's server {first.server_cpu_s * per_call:.2f} ms, "
        f"plain {plain_cpu * per_call:.2f} ms; {size * per_call / 1e6:.2f} KB of Prefect's database, "
        f"{first.result['prefect']['recorded']} of {first.result['prefect']['task_runs']} task runs recorded"
    )
    print(
        f"  cached re-run: {again.seconds:.1f} s, CPU {again.cpu_s + again.server_cpu_s:.1f} s, "
        f"{again.result['calls']} calls",
        flush=True,
    )


def database_bytes(home: Path) -> int:
    """Return the size of Prefect's database, what is still in its log included."""
    return sum(
        path.stat().st_size for path in (home / "prefect").glob("prefect.db*") if path.suffix != ".db-shm"
    )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--benchmark", default="demo")
    options.add_argument("--pipeline", default="rsl-sql")
    options.add_argument("--data", default="data", help="folder of the benchmark's files")
    options.add_argument("--questions", type=int, default=113)
    options.add_argument("--latency", type=float, default=1.0)
    options.add_argument(
        "--tail", type=float, default=0.0, help="sigma of the latencies' log-normal distribution"
    )
    options.add_argument("--in-flight", type=int, default=32)
    options.add_argument("--grid", action="store_true", help=f"latencies and numbers in flight: {GRID}")
    chosen = options.parse_args()
    for latency, in_flight in GRID if chosen.grid else ((chosen.latency, chosen.in_flight),):
        compare(chosen, latency, in_flight)


if __name__ == "__main__":
    main()

r"""How fast an evaluation is beside a plain loop that sends the same requests. A script, not a test:

    python tests/benchmarks/speed_of_an_evaluation.py [--questions 113] [--latency 1.0] [--in-flight 32] [--tail 0]
    python tests/benchmarks/speed_of_an_evaluation.py --benchmark spider-dev --pipeline rsl-sql --questions 972 \
        --in-flight 128 --data FOLDER
    python tests/benchmarks/speed_of_an_evaluation.py --grid         # several latencies and numbers in flight
    python tests/benchmarks/speed_of_an_evaluation.py --grid --benchmark spider-dev --questions 972 --data FOLDER \
        --chart docs/images/efficiency.svg --page docs/speed.md     # the table and the chart of the page

It evaluates a benchmark against a local API of a set latency, sends the same requests once more with an event loop of
its own (the same client, as many in flight, as many in a chain as the pipeline asks one after the other; no Prefect,
no cache, no SQL, no scoring), and evaluates again from the cache. It prints
- the share of plain: the plain loop's time over the evaluation's, from the opening of its stores until everything is
  recorded and logged, and over that of the whole command;
- milliseconds of CPU per call: of the command without Prefect's server, of that server, and of the plain loop;
- bytes of Prefect's database per call, the time of the cached re-run (`--again`), and that of showing the finished run;
- the share of ideal (calls x latency / in flight, over the time) of the plain loop, of the evaluation, and of naive
  Prefect: a task for every request, with retries and a persisted result (a fifth of the requests).

Seconds depend on what else the machine does; compare the shares of one line.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from tasks.backbone.cache.store import open_reply_cache
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.protocol import Message, Request
from tasks.benchmarks.benchmark import load_benchmark
from tasks.benchmarks.databases import open_benchmark_database
from tasks.settings.backbone import BackboneSettings
from tests.benchmarks.local_api import local_api, replies_as_in_life
from tests.benchmarks.parts import local_backbone, options_of
from tests.support.command_line import CommandLine

GRID = ((1.0, 32), (1.0, 128), (0.1, 64))
NAIVE_PART = 5
"""One of so many requests is sent by naive Prefect, which takes several times as long as everything else."""
WAYS = ("plain", "Crosscheck", "naive Prefect")
"""Ways to send the requests."""


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
                        server = "flows.prefect.server" in each.cmdline()
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

    async def work(client: EndpointBackbone) -> None:
        while waiting:
            for request in waiting.pop():
                await client.complete(request)

    async def run() -> tuple[float, float]:
        settings = BackboneSettings(name="local", model="local", base_url=url, concurrency=in_flight)
        async with EndpointBackbone(settings) as client:
            started, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*(work(client) for _ in range(min(in_flight, chains))))
            return time.perf_counter() - started, time.process_time() - cpu

    return asyncio.run(run())


def naive(requests: Sequence[Request], chains: int, url: str, in_flight: int) -> float:
    """Send requests as tasks of a Prefect flow; return the seconds until all task runs are recorded."""
    from flows.prefect.flow_runs import wait_until_recorded
    from flows.prefect.server import LocalServer
    from flows.prefect.settings import CLIENT, apply
    from flows.runtime.control import Control
    from tasks.settings.home import Home

    waiting = [requests[number::chains] for number in range(chains)]
    with tempfile.TemporaryDirectory() as folder:
        apply(CLIENT)
        with LocalServer(Home(Path(folder))) as server:
            server.wait()
            from prefect import flow, task
            from prefect.runtime import flow_run

            @task(retries=2, persist_result=True)
            async def ask(client: EndpointBackbone, request: Request) -> str:
                return (await client.complete(request)).text

            async def work(client: EndpointBackbone) -> None:
                while waiting:
                    for request in waiting.pop():
                        await ask(client, request)

            @flow
            async def evaluate() -> None:
                settings = BackboneSettings(name="local", model="local", base_url=url, concurrency=in_flight)
                async with EndpointBackbone(settings) as client:
                    await asyncio.gather(*(work(client) for _ in range(min(in_flight, chains))))
                await wait_until_recorded(len(requests), Control(flow_run=str(flow_run.id)))

            started = time.perf_counter()
            asyncio.run(evaluate())
            return time.perf_counter() - started


@dataclass
class Cell:
    """What was measured at one latency and number in flight."""

    latency: float
    in_flight: int
    calls: int
    plain_s: float
    plain_cpu_s: float
    naive_s: float
    """Seconds of naive Prefect, were it to send all requests; 0: not measured."""
    first: Measured
    again: Measured
    shown: Measured
    """The same command once more, which shows the run of `again`."""
    database: int
    """Bytes that Prefect's database has grown by."""

    @property
    def efficiency(self) -> dict[str, float]:
        """The share of ideal, by way."""
        ideal = self.calls * self.latency / self.in_flight
        seconds = dict(zip(WAYS, (self.plain_s, self.first.result["seconds"], self.naive_s), strict=True))
        return {way: ideal / each for way, each in seconds.items() if each}

    def lines(self) -> str:
        """Return what is printed."""
        result, shown = self.first.result, self.shown
        return (
            f"{HEADER}\n{self.row()}\n{self.calls} calls; the command {self.first.seconds:.1f} s; the finished run "
            f"shown {shown.seconds:.1f} s, CPU {shown.cpu_s + shown.server_cpu_s:.1f} s; EX {result['correct']} of "
            f"{result['total']}; {result['prefect']['recorded']} of {result['prefect']['task_runs']} task runs recorded"
        )

    def row(self) -> str:
        """Return a row of the page's table."""
        per_call, result, shares = 1000 / self.calls, self.first.result, self.efficiency
        return (
            f"| {self.latency:g} s × {self.in_flight} | {self.plain_s:.1f} s | {result['seconds']:.1f} s | "
            f"{self.plain_s / result['seconds']:.2f} | {' | '.join(f'{shares.get(way, 0):.2f}' for way in WAYS)} | "
            f"{self.plain_cpu_s * per_call:.1f} | {self.first.cpu_s * per_call:.1f} | "
            f"{self.first.server_cpu_s * per_call:.1f} | {self.database * per_call / 1e6:.1f} KB | "
            f"{self.again.seconds:.1f} s |"
        )


HEADER = (
    "| latency × in flight | plain | evaluation | share of plain | ideal: plain | Crosscheck | naive Prefect | CPU ms per "
    "call: plain | evaluation | Prefect's server | database per call | second run |\n" + "|--" * 12 + "|"
)


def compare(chosen: argparse.Namespace, latency: float, in_flight: int) -> Cell:
    reply = as_in_life(chosen) if chosen.golds else '{"sql": "SELECT 1"}'
    with tempfile.TemporaryDirectory() as folder, local_api(latency, chosen.tail, reply) as url:
        backbone = local_backbone(Path(folder), url, concurrency=in_flight)
        command = CommandLine(Path(folder) / "home")
        what = ("--benchmark", chosen.benchmark, "--pipeline", chosen.pipeline, "--data", chosen.data)
        arguments = ("evaluate", "--backbone", backbone, *what, "--json")
        limit = ("--limit", str(chosen.questions))
        command.run(*arguments, "--limit", "1", "--backbone", "offline")  # builds the demo and the stores
        size = database_bytes(command.home)
        first = measure(command, *arguments, *limit)
        size = database_bytes(command.home) - size
        requests, questions = requests_in(command.home), first.result["questions"]
        plain_s, plain_cpu_s = plain(requests, questions, url, in_flight)
        again = measure(command, *arguments, *limit, "--again")
        shown = measure(command, *arguments, *limit)
        assert shown.result["run_id"] == again.result["run_id"], "nothing was evaluated"
        part = requests[: max(len(requests) // NAIVE_PART, min(questions, len(requests)))]
        naive_s = 0.0
        if not chosen.no_naive:
            # In a process of its own, because Prefect's settings are those of a process.
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                seconds = process.submit(naive, part, questions, url, in_flight).result()
            naive_s = seconds * len(requests) / len(part)
    calls = first.result["cost"]["calls"]
    cell = Cell(latency, in_flight, calls, plain_s, plain_cpu_s, naive_s, first, again, shown, size)
    print(cell.lines(), flush=True)
    return cell


def as_in_life(chosen: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Return replies with the golds of the benchmark."""
    from tasks.settings.assemble import benchmark_settings
    from tasks.settings.home import find_conf

    with tempfile.TemporaryDirectory() as folder:
        data, conf = Path(chosen.data), find_conf()
        benchmark = load_benchmark(
            benchmark_settings(chosen.benchmark, ()), data=data, home=Path(folder), conf=conf
        )
        named = dict.fromkeys(question.database_id for question in benchmark.questions)
        opened = {
            name: open_benchmark_database(benchmark, name, 0) for name in named if benchmark.exists(name)
        }
        schemas = {**benchmark.schemas, **{name: database.schema for name, database in opened.items()}}
        return replies_as_in_life(benchmark, schemas)


def draw(cells: Sequence[Cell], file: Path) -> None:
    """Draw the efficiency of every cell and way as a bar chart."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    axes = figure.subplots()
    for number, way in enumerate(WAYS):
        places = [place + 0.25 * number for place in range(len(cells))]
        bars = axes.bar(places, [cell.efficiency.get(way, 0.0) for cell in cells], 0.24, label=way)
        axes.bar_label(bars, fmt="%.2f")
    axes.set_xticks(
        [place + 0.25 for place in range(len(cells))],
        [f"{cell.latency:g} s × {cell.in_flight}" for cell in cells],
    )
    axes.set_title("Efficiency: calls × latency / in flight, over the time taken")
    axes.legend()
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)


def fill(page: Path, cells: Sequence[Cell], drawn: Path | None) -> None:
    """Write the table, and a link to the chart, into a page, between its two marks."""
    before, mark, rest = page.read_text(encoding="utf-8").partition("<!-- grid -->\n")
    _, end, after = rest.partition("<!-- end of grid -->")
    assert mark and end, f"{page} has no marks"
    table = "\n".join([HEADER, *(cell.row() for cell in cells)])
    if drawn:
        table += f"\n\n![Efficiency by latency and number in flight]({os.path.relpath(drawn, page.parent)})"
    page.write_text(f"{before}{mark}\n{table}\n\n{end}{after}", encoding="utf-8")


def database_bytes(home: Path) -> int:
    """Return the size of Prefect's database, what is still in its log included."""
    return sum(
        path.stat().st_size for path in (home / "prefect").glob("prefect.db*") if path.suffix != ".db-shm"
    )


def main() -> None:
    options = options_of(__doc__)
    options.add_argument("--benchmark", default="demo")
    options.add_argument("--pipeline", default="rsl-sql")
    options.add_argument("--data", default="data", help="folder of the benchmark's files")
    options.add_argument("--questions", type=int, default=113)
    options.add_argument("--latency", type=float, default=1.0)
    options.add_argument(
        "--tail", type=float, default=0.0, help="sigma of the latencies' log-normal distribution"
    )
    options.add_argument("--in-flight", type=int, default=32)
    options.add_argument(
        "--golds",
        action="store_true",
        help="reply with the golds, which are executed and scored, not with SELECT 1",
    )
    options.add_argument("--grid", action="store_true", help=f"latencies and numbers in flight: {GRID}")
    options.add_argument("--no-naive", action="store_true", help="do not measure naive Prefect")
    options.add_argument("--chart", type=Path, help="SVG file for the efficiency of every cell")
    options.add_argument("--page", type=Path, help="Markdown file whose table is replaced")
    chosen = options.parse_args()
    grid = GRID if chosen.grid else ((chosen.latency, chosen.in_flight),)
    cells = [compare(chosen, latency, in_flight) for latency, in_flight in grid]
    if chosen.chart:
        draw(cells, chosen.chart)
    if chosen.page:
        fill(chosen.page, cells, chosen.chart)


if __name__ == "__main__":
    main()

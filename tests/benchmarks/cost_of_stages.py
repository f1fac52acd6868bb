r"""What Prefect costs per call of a stage. A script, not a test:

    python tests/benchmarks/cost_of_stages.py [--questions 200] [--stages 8] [--latency 1.0] [--in-flight 128]
    python tests/benchmarks/cost_of_stages.py --tail 1.0            # latencies with a long tail

The same requests, in chains of one request per stage and question, go through the same client to the same local API:
- plain: an event loop that asks, without stages;
- direct: the stages, run in place, without Prefect and without a store;
- prefect: the stages in Prefect's task runs, every result persisted, every task run recorded at the end.

It prints the time of each, the share of plain, milliseconds of CPU per call of this process and of Prefect's server,
and bytes of Prefect's database per call. Seconds depend on what else the machine does; compare the shares.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psutil

sys.path.insert(0, str(Path(__file__).parents[2]))

from flows.prefect.server import LocalServer
from flows.prefect.settings import CLIENT, apply
from flows.prefect.stage_task_runs import TaskRuns
from flows.runtime.control import Control
from tasks.backbone.endpoint.client import EndpointBackbone
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Message, Request
from tasks.core.records import Question
from tasks.settings.backbone import BackboneSettings
from tasks.settings.home import Home
from tasks.stages.question_run import QuestionRun, in_question_run
from tasks.stages.stage import Stage, stage
from tests.benchmarks.local_api import local_api

PROMPT = "CREATE TABLE t (a INTEGER, b TEXT);\n" * 100


@dataclass(frozen=True)
class Cost:
    """What one way of asking cost."""

    seconds: float
    calls: int
    cpu_s: float
    server_cpu_s: float = 0.0
    database_bytes: int = 0
    task_runs: int = 0

    def line(self, name: str, plain: "Cost") -> str:
        """Return a line of the table."""
        per_call = 1000 / self.calls
        return (
            f"{name:8} {self.seconds:7.2f} s  {plain.seconds / self.seconds:5.2f} of plain  "
            f"CPU per call: {self.cpu_s * per_call:5.2f} ms here, "
            f"{self.server_cpu_s * per_call:5.2f} ms in the server; "
            f"{self.database_bytes / self.calls / 1000:5.2f} KB of Prefect's database, {self.task_runs} task runs"
        )


def make_stage(number: int) -> Stage[..., str]:
    """Return a stage that asks once."""

    async def ask(question: Question, before: str, backbone: MeteredBackbone) -> str:
        return await backbone.ask_text((Message("user", f"{PROMPT}{before}{question.text}"),))

    ask.__name__ = f"stage_{number}"
    return stage()(ask)


async def in_pool(questions: int, in_flight: int, answer: Callable[[int], Awaitable[None]]) -> None:
    """Answer questions, as many at a time as may be in flight."""
    waiting = list(reversed(range(questions)))

    async def work() -> None:
        while waiting:
            await answer(waiting.pop())

    await asyncio.gather(*(work() for _ in range(min(in_flight, questions))))


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--questions", type=int, default=200)
    options.add_argument("--stages", type=int, default=8)
    options.add_argument("--latency", type=float, default=1.0)
    options.add_argument(
        "--tail", type=float, default=0.0, help="sigma of the latencies' log-normal distribution"
    )
    options.add_argument("--in-flight", type=int, default=128)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    stages = [make_stage(number) for number in range(given.stages)]
    calls = given.questions * given.stages
    questions = [Question(str(number), f"question {number}", "db") for number in range(given.questions)]

    def seconds_of(work: Callable[[EndpointBackbone], Awaitable[None]], url: str) -> Cost:
        async def timed() -> Cost:
            settings = BackboneSettings(name="local", model="m", base_url=url, concurrency=given.in_flight)
            async with EndpointBackbone(settings) as client:
                started, cpu = time.perf_counter(), time.process_time()
                await work(client)
                return Cost(time.perf_counter() - started, calls, time.process_time() - cpu)

        return asyncio.run(timed())

    async def plain(client: EndpointBackbone) -> None:
        async def answer(number: int) -> None:
            before = ""
            for _ in stages:
                text = f"{PROMPT}{before}{questions[number].text}"
                before = (await client.complete(Request((Message("user", text),)))).text

        await in_pool(given.questions, given.in_flight, answer)

    async def through_stages(
        client: EndpointBackbone, question_run: Callable[[Question], QuestionRun]
    ) -> None:
        async def answer(number: int) -> None:
            before = ""
            with in_question_run(question_run(questions[number])):
                for each in stages:
                    before = await each(questions[number], before, MeteredBackbone(client))

        await in_pool(given.questions, given.in_flight, answer)

    async def direct(client: EndpointBackbone) -> None:
        await through_stages(client, QuestionRun)

    os.environ["DO_NOT_TRACK"] = "1"
    with tempfile.TemporaryDirectory() as folder, local_api(given.latency, given.tail) as url:
        home = Home(Path(folder))
        apply(CLIENT)
        with LocalServer(home) as server:
            server.wait()
            found = {"plain": seconds_of(plain, url), "direct": seconds_of(direct, url)}
            found["prefect"] = with_prefect(through_stages, seconds_of, url, home, server, calls)
    if given.json:
        print(json.dumps({name: vars(cost) for name, cost in found.items()}))
    for name, cost in found.items():
        print(cost.line(name, found["plain"]))
    prefect, without = found["prefect"], found["direct"]
    own = (prefect.cpu_s - without.cpu_s + prefect.server_cpu_s) * 1000 / calls
    print(f"Prefect's cost: {own:.2f} ms of CPU per call of a stage, over all processes")


def with_prefect(
    through_stages: Callable[..., Awaitable[None]],
    seconds_of: Callable[..., Cost],
    url: str,
    home: Home,
    server: LocalServer,
    calls: int,
) -> Cost:
    """Run the stages as Prefect's task runs, until all of them are recorded."""
    from prefect import flow
    from prefect.runtime import flow_run

    from flows.prefect.stage_results import open_results
    from flows.prefect.task_runs import wait_until_recorded

    results = open_results(home)
    counted: list[int] = []

    async def work(client: EndpointBackbone) -> None:
        @flow(name="cost", persist_result=False)
        async def cost() -> None:
            task_runs = TaskRuns(results)
            await through_stages(client, lambda question: QuestionRun(question, results, task_runs))
            await task_runs.finish()
            counted.append(await wait_until_recorded(UUID(str(flow_run.id)), task_runs.begun, Control()))

        await cost()

    process = psutil.Process(server._process.pid)
    size = database_bytes(home)
    before = sum(process.cpu_times()[:2])
    spent = seconds_of(work, url)
    after = sum(process.cpu_times()[:2])
    return Cost(
        spent.seconds,
        calls,
        spent.cpu_s,
        after - before,
        database_bytes(home) - size,
        counted[0] if counted else 0,
    )


def database_bytes(home: Home) -> int:
    """Return the size of Prefect's database, what is still in its log included."""
    return sum(
        path.stat().st_size for path in home.prefect.glob("prefect.db*") if not path.name.endswith("-shm")
    )


if __name__ == "__main__":
    main()

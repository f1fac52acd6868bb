r"""How fast an evaluation is, as ratios of what it could be at best. A script, not a test:

    python tests/benchmarks/speed_of_an_evaluation.py [--questions 113] [--latency 1.0] [--in-flight 64]
    python tests/benchmarks/speed_of_an_evaluation.py --benchmark spider-dev --pipeline rsl-sql --questions 972 \
        --in-flight 128 --data FOLDER

It evaluates a benchmark against a local API that answers after a fixed latency, then runs it again from
the cache, and prints
- the share of the ideal: the time that the calls alone would take with that many in flight, over the time it took;
- the cached re-run over the first run, and its time per restored stage result.
"""

import argparse
import math
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.support.command_line import CommandLine
from tests.support.fake_openai import FakeOpenAI


def serve(latency: float, connection: Connection) -> None:
    """Run the API in a process of its own, so that it takes no time from the evaluation's."""
    with FakeOpenAI() as server:
        server.latency = latency
        server.answer = lambda body: '{"sql": "SELECT 1"}'
        connection.send(server.base_url)
        connection.recv()
        connection.send(server.most_in_flight)


@contextmanager
def api(latency: float) -> Iterator[tuple[str, Connection]]:
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(latency, there), daemon=True)
    process.start()
    yield here.recv(), here
    process.join(timeout=10)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--benchmark", default="demo")
    options.add_argument("--pipeline", default="zero-shot")
    options.add_argument("--data", default="data", help="folder of the benchmark's files")
    options.add_argument("--questions", type=int, default=113)
    options.add_argument("--latency", type=float, default=1.0)
    options.add_argument("--in-flight", type=int, default=64)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, api(chosen.latency) as (url, server):
        backbone = Path(folder) / "local.yaml"
        settings = {"model": "local", "base_url": url, "concurrency": chosen.in_flight}
        backbone.write_text(yaml.safe_dump(settings), encoding="utf-8")
        command = CommandLine(Path(folder) / "home")
        what = ("--benchmark", chosen.benchmark, "--pipeline", chosen.pipeline, "--data", chosen.data)
        arguments = ("evaluate", "--backbone", str(backbone), *what, "--json")
        limit = ("--limit", str(chosen.questions))
        command.run(*arguments, "--limit", "1", "--backbone", "offline")  # builds the demo and the stores
        first = command.run(*arguments, *limit).json
        again = command.run(*arguments, *limit).json
        server.send("end")
        most = server.recv()
    ideal = math.ceil(first["calls"] / chosen.in_flight) * chosen.latency
    print(f"{first['calls']} calls of {chosen.latency} s, at most {most} in flight: {first['seconds']:.2f} s")
    print(f"share of the ideal {ideal:.2f} s: {ideal / first['seconds']:.2f} (logging and scoring included)")
    share = again["seconds"] / first["seconds"]
    print(f"cached re-run: {again['seconds']:.2f} s, {share:.3f} of the first, {again['calls']} calls")


if __name__ == "__main__":
    main()

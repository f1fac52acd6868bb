r"""How long commands take before and besides the model's own time. A script, not a test:

    python tests/benchmarks/speed_of_a_start.py

Against a local API that answers at once, it prints for each command the seconds until its first line of progress, until
the first model call and until its end, and the seconds of CPU of all its processes:
- `evaluate` on a fresh working folder, on one that exists, once more with every answer cached (`--again`), and as the
  finished run that it would repeat;
- `answer` on a small database, `score` of the demo's gold SQL, `--help`.
Beside them stand the seconds that an empty Python process takes, as a measure of what else the machine does.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.parts import local_backbone, processor_time
from tests.support.command_line import CommandLine
from tests.support.fake_openai import FakeOpenAI


def timed(name: str, command: CommandLine, server: FakeOpenAI, *arguments: str) -> str:
    """Run a command, print its times, and return its standard output."""
    server.requests.clear()
    before, started = processor_time(), time.monotonic()
    process = command.start_anew(*arguments)
    assert process.stderr is not None
    said = process.stderr.readline()
    line = f"{time.monotonic() - started:6.2f} s" if said else "       -"
    out, err = process.communicate(timeout=600)
    total, cpu = time.monotonic() - started, processor_time() - before
    first = f"{server.requests[0].at - started:6.2f} s" if server.requests else "       -"
    calls = len(server.requests)
    print(
        f"{name:34} first line {line}  first call {first}  end {total:6.2f} s  CPU {cpu:6.2f} s  calls {calls}",
        flush=True,
    )
    if process.returncode:
        print(err)
    return out


def main() -> None:
    started = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    print(f"an empty Python process: {time.monotonic() - started:.2f} s")
    with tempfile.TemporaryDirectory() as folder, FakeOpenAI() as server:
        server.answer = lambda body: '{"sql": "SELECT 1"}'
        backbone = local_backbone(Path(folder), server.base_url)
        os.environ.pop("PREFECT_API_URL", None)
        command = CommandLine(Path(folder) / "home")
        evaluate = ("evaluate", "--backbone", backbone, "--json", "--limit")
        timed("--help", command, server, "--help")
        timed("evaluate, fresh folder", command, server, *evaluate, "5")
        timed("evaluate, folder that exists", command, server, *evaluate, "10")
        timed("evaluate, ten cached questions", command, server, *evaluate, "10", "--again")
        timed("evaluate, the finished run shown", command, server, *evaluate, "10")
        databases = sorted((command.home / "benchmarks" / "demo").rglob("*.sqlite"))
        smallest = str(min(databases, key=lambda path: path.stat().st_size))
        answer = ("answer", "How many?", "--database", smallest, "--backbone", backbone)
        timed("answer", command, server, *answer)
        demo = command.home / "benchmarks" / "demo" / "dev.json"
        questions = json.loads(demo.read_text(encoding="utf-8"))
        predictions = Path(folder) / "predictions.json"
        predicted = {
            str(n): f"{each['SQL']}\t----- bird -----\t{each['db_id']}" for n, each in enumerate(questions)
        }
        predictions.write_text(json.dumps(predicted), encoding="utf-8")
        timed("score", command, server, "score", "--predictions", str(predictions), "--json")


if __name__ == "__main__":
    main()

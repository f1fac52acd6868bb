r"""How long a score takes beside a plain loop and beside inspect_ai, as whole processes. A script, not a test:

    python tests/benchmarks/beside_inspect_ai.py --data FOLDER [--questions 3 972] [--pipeline zero-shot] [--rounds 3]

The first questions of Spider dev, the same prompts, one API of 1 s latency that replies with the gold SQL, 128 requests
in flight. The programs run in turns, and the table shows medians of the rounds:
- a plain asyncio loop on the OpenAI SDK (`plain_harness.py`);
- inspect_ai (`inspect_task.py`: generate, and a scorer with sqlite3), installed in a virtual environment of its own, for
  pipelines of one call;
- `crosscheck evaluate` on a fresh working folder, and on one that exists with every question asked anew.
Processor time is that of a program's whole process tree.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tasks.backbone.cache.store import open_reply_cache
from tasks.benchmarks.benchmark import load_benchmark
from tasks.benchmarks.databases import open_benchmark_database
from tasks.settings.assemble import benchmark_settings
from tasks.settings.home import find_conf
from tests.benchmarks.local_api import local_api, replies_as_in_life
from tests.benchmarks.parts import Timed, local_backbone, timed
from tests.support.command_line import CommandLine

VERSION = "inspect-ai==0.3.285"
IN_FLIGHT = 128
HERE = Path(__file__).parent


def inspect_program(folder: Path) -> Path:
    """Install inspect_ai in a virtual environment and return its command."""
    if not (folder / "bin" / "inspect").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin" / "pip", "install", "-q", VERSION, "openai"], check=True)
    return folder / "bin" / "inspect"


class Questions:
    """The questions of Spider dev, with what a good model replies, and what a pipeline asks."""

    def __init__(self, data: Path, folder: Path, pipeline: str) -> None:
        self.data, self.folder, self.pipeline = data, folder, pipeline
        split = load_benchmark(benchmark_settings("spider-dev"), data=data, home=folder, conf=find_conf())
        present = [question for question in split.questions if question.database_id not in split.missing]
        self.benchmark = replace(split, questions=present)
        ids = {question.database_id for question in present}
        self.databases = {name: open_benchmark_database(split, name, 3) for name in ids}
        self.replies = replies_as_in_life(
            self.benchmark, {name: database.schema for name, database in self.databases.items()}
        )

    def evaluate(self, url: str, count: int, home: Path, *more: str) -> list[str]:
        """Return the command that evaluates the first questions."""
        settings = {"concurrency": IN_FLIGHT, "response_mode": "json_schema"}
        backbone = local_backbone(self.folder, url, **settings)
        chosen = ("--benchmark", "spider-dev", "--backbone", backbone, "--pipeline", self.pipeline)
        folders = ("--data", str(self.data), "--home", str(home), "--questions", f"@{self._ids(count)}")
        return CommandLine(home).command("evaluate", "--json", *chosen, *folders, *more)

    def _ids(self, count: int) -> Path:
        file = self.folder / f"ids-{count}.txt"
        file.write_text("\n".join(question.id for question in self.benchmark.questions[:count]))
        return file

    def write(self, count: int) -> Path:
        """Write the first questions with the prompts that an evaluation has sent."""
        home = self.folder / f"prompts-{count}"
        with local_api(0.0, reply=self.replies) as url:
            timed(self.evaluate(url, count, home), folder=self.folder)
        prompts: dict[str, list[str]] = defaultdict(list)
        with open_reply_cache(home / "replies.sqlite") as cache:
            for entry in reversed(list(cache.entries())):
                prompt = entry.request["messages"][-1][1]
                prompts[prompt.rpartition("### Question\n")[2].partition("\n### ")[0].strip()].append(prompt)
        lines: list[dict[str, Any]] = [
            {
                "prompt": prompts[question.text][-1],
                "prompts": prompts[question.text],
                "gold": self.benchmark.gold[question.id],
                "path": str(self.databases[question.database_id].path),
            }
            for question in self.benchmark.questions[:count]
        ]
        file = self.folder / f"questions-{count}.json"
        file.write_text(json.dumps(lines), encoding="utf-8")
        return file


def run_inspect(inspect: Path, file: Path, count: int, url: str, logs: Path) -> Timed:
    """Have inspect_ai ask and score the questions of a file; check that it did."""
    settings = {"QUESTIONS": str(file), "LOCAL_API_KEY": "none", "LOCAL_BASE_URL": url}
    options = {
        "model": "openai-api/local/local",
        "max-connections": IN_FLIGHT,
        "max-samples": IN_FLIGHT,
        "display": "none",
        "log-dir": logs,
        "log-format": "json",
    }
    words = [str(inspect), "eval", "inspect_task.py", *(f"--{key}={value}" for key, value in options.items())]
    measured = timed(words, settings, HERE)
    newest = max(logs.glob("*.json"), key=lambda path: path.stat().st_mtime)
    log = json.loads(newest.read_text(encoding="utf-8"))
    if (log["status"], log["results"]["completed_samples"]) != ("success", count):
        raise SystemExit(f"inspect_ai: {log['status']}: {log.get('error')}")
    return measured


def run_round(questions: Questions, file: Path, count: int, inspect: Path, number: int) -> dict[str, Timed]:
    """Run every program once."""
    measured, folder = {}, questions.folder
    with local_api(1.0, reply=questions.replies) as url:
        plain = [sys.executable, str(HERE / "plain_harness.py"), str(file), url, str(IN_FLIGHT)]
        measured["plain loop"] = timed(plain, folder=folder)
        if questions.pipeline in ("zero-shot", "few-shot"):
            measured["inspect_ai"] = run_inspect(inspect, file, count, url, folder / "logs")
        home = folder / f"home-{count}-{number}"
        measured["Crosscheck, fresh folder"] = timed(questions.evaluate(url, count, home), folder=folder)
        anew = ("--set", "backbone.epoch=anew")
        measured["Crosscheck"] = timed(questions.evaluate(url, count, home, *anew), folder=folder)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--questions", type=int, nargs="+", default=[3, 972])
    parser.add_argument("--pipeline", default="zero-shot")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--inspect", type=Path, help="folder of the virtual environment; left out: a temporary one"
    )
    arguments = parser.parse_args()
    for name in (
        "PREFECT_API_URL",
        "PYTHONDONTWRITEBYTECODE",
    ):  # a program that is installed has compiled modules
        os.environ.pop(name, None)
    with tempfile.TemporaryDirectory() as name:
        inspect = inspect_program(arguments.inspect or Path(name) / "inspect_ai")
        questions = Questions(arguments.data, Path(name), arguments.pipeline)
        print(
            f"{arguments.pipeline}, medians of {arguments.rounds}, load {os.getloadavg()[0]:.1f} at the start"
        )
        for count in arguments.questions:
            file = questions.write(count)
            rounds = [run_round(questions, file, count, inspect, n) for n in range(arguments.rounds)]
            for program in rounds[0]:
                seconds, cpu = (statistics.median(each[program][part] for each in rounds) for part in (0, 1))
                print(f"{count:5} questions  {program:26} {seconds:6.2f} s  CPU {cpu:6.2f} s", flush=True)


if __name__ == "__main__":
    main()

r"""How time and memory grow with the number of questions and the width of schemas. A script, not a test:

    python tests/benchmarks/growth.py --schemas                       # 10 to 12,000 columns, in this process
    python tests/benchmarks/growth.py --questions 100 1000 10000 --data FOLDER [--pipeline zero-shot]
    python tests/benchmarks/growth.py --again 1534 --failed 50 --data FOLDER

With `--schemas` every pipeline answers questions on databases of 10, 100, 1,000, 3,000 and 12,000 columns with a model that
replies at once, its context being 32,768 tokens. It prints milliseconds of CPU per question, per column too, and the
largest prompt in bytes.

With `--questions` a benchmark of as many questions, made of Spider dev's, is evaluated against a local API that answers
at once. It prints the highest resident memory of the evaluating process, and the CPU per question.

With `--again` such a benchmark is evaluated three times: the API closes the connection of every request of some questions,
which fail; answers them, so that only these are asked again; and is not asked at all. It prints of each command the
seconds, the seconds of CPU of it and of Prefect's server, and the paid calls.
"""

import argparse
import asyncio
import json
import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))

from flows.pipelines.pipeline import Context, pipeline_of
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Reply, Request, request_key
from tasks.core.outcome import Call, Usage
from tasks.core.records import Demonstration, Question
from tasks.database.database import Database, open_database
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.sandbox.workers import SqlWorkers
from tasks.retrieval.alignment import ground
from tasks.retrieval.value_index import DatabaseValues
from tasks.settings.home import find_conf
from tasks.settings.load import load_pipeline_settings
from tasks.stages.question_run import QuestionRun, in_question_run
from tasks.stages.schema_prompt import schema_room
from tests.benchmarks.parts import local_backbone, options_of
from tests.benchmarks.speed_of_an_evaluation import Measured, measure
from tests.support.command_line import CommandLine
from tests.support.fake_openai import FakeOpenAI

COLUMNS = (10, 100, 1000, 3000, 12_000)
PER_TABLE = 10
CONTEXT_TOKENS = 32_768
PIPELINES = ("few-shot", "rsl-sql", "dac", "sea-sql")
REPEATS = 5
FAILING = "Will this fail?"
QUESTION = "What is the value of attribute 3 for the item with the highest attribute 5?"
SQL = "SELECT attribute_3 FROM table_0 ORDER BY attribute_5 DESC LIMIT 1"
REPLY = {
    "sql": SQL, "tables": ["table_0"], "columns": ["table_0.attribute_3", "table_0.attribute_5"], "keywords": ["MAX"],
    "conditions": [], "choice": "1", "entities": [], "skeleton": "SELECT _ FROM _ ORDER BY _ DESC LIMIT 1",
}  # fmt: skip


@dataclass
class AtOnce:
    """Backbone that gives every request the same reply, and keeps the size of the largest prompt."""

    largest: int = 0

    @property
    def identity(self) -> dict[str, str]:
        return {"kind": "at once"}

    async def complete(self, request: Request) -> Reply:
        self.largest = max(self.largest, sum(len(each.content.encode()) for each in request.messages))
        call = Call(request_key(self.identity, request), "at once", Usage(), cached=False, seconds=0.0)
        return Reply(json.dumps(REPLY), call)


def wide_database(folder: Path, columns: int) -> Database:
    """Make a database of tables of ten columns each, joined by keys."""
    path = folder / f"wide_{columns}.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        for table in range(columns // PER_TABLE):
            names = ", ".join(f"attribute_{n} TEXT" for n in range(1, PER_TABLE - 1))
            key = f"parent INTEGER REFERENCES table_{max(table - 1, 0)} (id)"
            connection.execute(f"CREATE TABLE table_{table} (id INTEGER PRIMARY KEY, {names}, {key})")
            rows = [
                [n, *(f"text {n} of {m}" for m in range(1, PER_TABLE - 1)), max(n - 1, 0)] for n in range(20)
            ]
            connection.executemany(f"INSERT INTO table_{table} VALUES ({', '.join('?' * PER_TABLE)})", rows)
        connection.commit()
    return open_database(path, path.stem, sample_rows=3)


async def schemas() -> None:
    """Print the cost of a question by pipeline and width."""
    print(
        f"{'pipeline':10} {'columns':>8} {'CPU per question':>17} {'per column':>11} {'largest prompt':>15}"
    )
    with tempfile.TemporaryDirectory() as folder:
        databases = [wide_database(Path(folder), columns) for columns in COLUMNS]
        async with SqlWorkers(1) as workers:
            for name in PIPELINES:
                for columns, database in zip(COLUMNS, databases, strict=True):
                    seconds, largest = await answers(name, database, workers, Path(folder))
                    print(
                        f"{name:10} {columns:8,} {1000 * seconds:14.1f} ms {1e6 * seconds / columns:8.1f} µs "
                        f"{largest:15,}",
                        flush=True,
                    )


async def answers(name: str, database: Database, workers: SqlWorkers, folder: Path) -> tuple[float, int]:
    """Answer questions with a pipeline; return the mean seconds of CPU and the largest prompt in bytes."""
    settings, backbone = load_pipeline_settings(find_conf(), name), AtOnce()
    shown = tuple(Demonstration(QUESTION, SQL, database.id) for _ in range(3))
    grounded = ground(shown, {database.id: database.schema})
    times = []
    for number in range(REPEATS):
        question = Question(str(number), f"{QUESTION} ({number})", database.id)
        context = Context(
            settings, DatabaseRunner(database, workers, 30.0), shown, MeteredBackbone(backbone),
            grounded=grounded, aligned=grounded, values=DatabaseValues(database, folder / "values"),
            schema_room=schema_room(CONTEXT_TOKENS, 2048),
        )  # fmt: skip
        started = time.process_time()
        with in_question_run(QuestionRun(question)):
            await pipeline_of(settings).answer(question, context)
        times.append(time.process_time() - started)
    return sum(times[1:]) / (REPEATS - 1), backbone.largest


def synthetic(data: Path, folder: Path, questions: int, failing: int) -> Path:
    """Make a benchmark in Spider's layout; return its YAML file."""
    spider, target = data / "spider", folder / "data" / "many"
    target.mkdir(parents=True)
    for name in ("database", "tables.json", "train.json", "train_gold.sql"):
        (target / name).symlink_to((spider / name).resolve())
    there = {path.parent.name for path in (spider / "database").glob("*/*.sqlite")}
    known = [each for each in json.loads((spider / "dev.json").read_text()) if each["db_id"] in there]
    made: list[dict[str, Any]] = []
    for number in range(questions):
        suffix = f" ({number // len(known) + 1})" if number >= len(known) else ""
        suffix += f" {FAILING}" if number < failing else ""
        made.append(
            {**known[number % len(known)], "question": known[number % len(known)]["question"] + suffix}
        )
    (target / "dev.json").write_text(json.dumps(made))
    file = folder / "many.yaml"
    settings = {"layout": "spider", "folder": "many", "questions": "dev.json", "tables": "tables.json"}
    settings |= {"databases": "database", "train": "train.json", "train_gold": "train_gold.sql"}
    settings |= {"revision": "1.0", "rule": "spider", "timeout_s": 60, "description": "Spider dev"}
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


def evaluate(server: FakeOpenAI, folder: Path, benchmark: Path, pipeline: str) -> Measured:
    """Evaluate a benchmark in a folder, 128 requests in flight."""
    backbone = local_backbone(folder, server.base_url, concurrency=128, retries=0)
    return measure(
        CommandLine(folder / "home"), "evaluate", "--backbone", backbone, "--benchmark", str(benchmark), "--json",
        "--pipeline", pipeline, "--data", str(folder / "data"), "--again",
    )  # fmt: skip


def questions(given: argparse.Namespace) -> None:
    """Print memory and CPU by number of questions."""
    for count in given.questions:
        with tempfile.TemporaryDirectory() as folder, FakeOpenAI() as server:
            server.keep = False
            server.answer = lambda body: '{"sql": "SELECT 1"}'
            benchmark = synthetic(Path(given.data), Path(folder), count, 0)
            ran = evaluate(server, Path(folder), benchmark, given.pipeline)
            print(
                f"{count:6,} questions, {ran.result['cost']['calls']:,} calls: {ran.memory_mb:,.0f} MB at most, "
                f"CPU {1000 * ran.cpu_s / count:.1f} ms per question, Prefect's server "
                f"{1000 * ran.server_cpu_s / count:.1f} ms",
                flush=True,
            )


def again(given: argparse.Namespace) -> None:
    """Print what the same evaluation takes after failures, and once more."""
    with tempfile.TemporaryDirectory() as folder, FakeOpenAI() as server:
        server.keep = False
        broken = True

        def answer(body: dict[str, Any]) -> str:
            if broken and FAILING in str(body["messages"]):
                raise ConnectionError
            return '{"sql": "SELECT 1"}'

        server.answer = answer
        benchmark = synthetic(Path(given.data), Path(folder), given.again, given.failed)
        for what in ("first run", "failed questions asked again", "second run"):
            ran = evaluate(server, Path(folder), benchmark, given.pipeline)
            broken = False
            print(
                f"{what:30} {ran.seconds:6.1f} s, CPU {ran.cpu_s:6.1f} s, Prefect's server {ran.server_cpu_s:5.1f} s; "
                f"{ran.result['cost']['calls']} calls, {ran.result['questions']} questions",
                flush=True,
            )


def main() -> None:
    options = options_of(__doc__)
    options.add_argument("--schemas", action="store_true")
    options.add_argument("--questions", type=int, nargs="*", default=[])
    options.add_argument("--again", type=int, metavar="QUESTIONS")
    options.add_argument("--failed", type=int, default=50)
    options.add_argument("--pipeline", default="rsl-sql")
    options.add_argument("--data", default="data", help="folder of the benchmarks' files")
    given = options.parse_args()
    if given.schemas or not (given.questions or given.again):
        asyncio.run(schemas())
    questions(given)
    if given.again:
        again(given)


if __name__ == "__main__":
    main()

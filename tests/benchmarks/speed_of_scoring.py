r"""How fast SQL is executed and scored beside the plain way. A script, not a test:

    python tests/benchmarks/speed_of_scoring.py --data FOLDER

- score: the command on a fresh working folder and once more, beside an evaluator in one process as BIRD's official one
  works (`plain_evaluator.py`): BIRD's published predictions on superhero, golds of superhero changed in 4,829 ways, and
  8,500 golds of Spider against themselves;
- logging: a program that only logs one number to MLflow, on a new store and once more: what a
  run in MLflow takes without Crosscheck;
- judging: pairs a second of the last ones, without the command around it.

The command and the evaluator are whole processes, from their start to their end; Crosscheck's modules are compiled
before, as pip does when it installs. Seconds depend on what else the machine does; compare the ratios.
"""

import asyncio
import compileall
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tasks.database.database import open_database
from tasks.database.location import Location
from tasks.database.sandbox.workers import SqlWorkers
from tasks.scoring.execution.accuracy import Judge
from tasks.scoring.execution.verdict_cache import VerdictCache
from tests.benchmarks.parts import options_of, timed
from tests.support.command_line import CommandLine

EVALUATOR = Path(__file__).with_name("plain_evaluator.py")
LOGGING = """
import sys
from mlflow import MlflowClient
client = MlflowClient(sys.argv[1])
known = client.get_experiment_by_name("plain")
experiment = known.experiment_id if known else client.create_experiment("plain")
run = client.create_run(experiment).info.run_id
client.log_metric(run, "right", 1.0)
client.set_terminated(run)
"""
COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}


@dataclass(frozen=True)
class Pairs:
    """Predictions to score: (database, predicted SQL, gold SQL), and the benchmark's YAML file."""

    name: str
    pairs: list[tuple[str, str, str]]
    benchmark: str
    data: Path
    predictions: Path


def benchmark_of(
    name: str, folder: Path, layout: str, tables: Path, databases: Path, pairs: list[tuple[str, str, str]]
) -> Pairs:
    """Write pairs as a benchmark judged by BIRD's rule, and the predictions in BIRD's format."""
    target = folder / name / "data" / "many"
    target.mkdir(parents=True)
    (target / "database").symlink_to(databases.resolve())
    (target / "tables.json").symlink_to(tables.resolve())
    rows = [
        {
            "question_id": n,
            "question": f"Question {n}",
            "query": gold,
            "SQL": gold,
            "evidence": "",
            "db_id": db,
        }
        for n, (db, _, gold) in enumerate(pairs)
    ]
    (target / "dev.json").write_text(json.dumps(rows))
    settings = folder / f"{name}.yaml"
    known = {"layout": layout, "folder": "many", "questions": "dev.json", "tables": "tables.json"}
    known |= {"databases": "database", "revision": "1", "rule": "bird", "description": name}
    settings.write_text(yaml.safe_dump({**known, "timeout_s": 30}), encoding="utf-8")
    predictions = folder / f"{name}.json"
    answers = {str(n): f"{sql}\t----- bird -----\t{db}" for n, (db, sql, _) in enumerate(pairs)}
    predictions.write_text(json.dumps(answers))
    return Pairs(name, pairs, str(settings), target.parent, predictions)


def superhero(data: Path) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the questions of superhero, and BIRD's published predictions by question id."""
    questions = json.loads((data / "bird/dev.json").read_text())
    file = data / "predictions/bird-dev-gpt-3.5-turbo-knowledge.json"
    known = json.loads(file.read_text())
    wanted = [one for one in questions if one["db_id"] == "superhero"]
    return wanted, {key: known[key].split("\t")[0] for key in (str(one["question_id"]) for one in wanted)}


def changed(questions: list[dict[str, Any]], number: int) -> list[tuple[str, str, str]]:
    """Return pairs of golds and their first one, two, ... rows."""
    made = []
    for place in range(number):
        one, rows = questions[place % len(questions)], place // len(questions) + 1
        gold = one["SQL"].rstrip().rstrip(";")
        made.append(("superhero", f"SELECT * FROM ({gold}) LIMIT {rows}", gold))
    return made


def spider_golds(spider: Path, number: int) -> list[tuple[str, str, str]]:
    """Return golds of Spider train whose database is there, each as its own prediction."""
    there = {path.parent.name for path in (spider / "database").glob("*/*.sqlite")}
    lines = [
        line.rsplit("\t", 1) for line in (spider / "train_gold.sql").read_text().splitlines() if "\t" in line
    ]
    known = [(name.strip(), sql.strip()) for sql, name in lines if name.strip() in there]
    return [(name, sql, sql) for name, sql in known[:number]]


def compare(pairs: Pairs, folder: Path, files: Mapping[str, Path], *more: str) -> None:
    """Print the times of `score`, on a fresh working folder and once more, beside the evaluator's."""
    listed = folder / f"{pairs.name}-pairs.json"
    listed.write_text(json.dumps([(str(files[name]), sql, gold) for name, sql, gold in pairs.pairs]))
    plain, _, printed = timed([sys.executable, str(EVALUATOR), str(listed)])
    total = len(pairs.pairs)
    print(
        f"{pairs.name}: evaluator in one process {plain:.2f} s, {total / plain:,.0f} pairs/s; right: {printed.strip()}"
    )
    command = CommandLine(folder / f"{pairs.name}-home", COMPILED)
    score = ("score", "--benchmark", pairs.benchmark, "--data", str(pairs.data), "--json", *more)
    words = command.command(*score, "--predictions", str(pairs.predictions))
    for what in ("cold", "again"):
        seconds, cpu, _ = timed(words, command.all_of_environment, command.cwd)
        print(
            f"{pairs.name}: {what} {seconds:.2f} s (CPU {cpu:.1f} s), {total / seconds:,.0f} "
            f"pairs/s: {seconds / plain:.2f} of the evaluator's time, {seconds - plain:+.2f} s",
            flush=True,
        )


def mlflow_alone(folder: Path) -> None:
    """Print the times of a program that logs one number to MLflow: on a new store and once more."""
    for what in ("new store", "again"):
        seconds, cpu, _ = timed(
            [sys.executable, "-c", LOGGING, f"sqlite:///{folder / 'plain.db'}"], COMPILED, folder
        )
        print(f"logging one number to MLflow: {what} {seconds:.2f} s (CPU {cpu:.1f} s)", flush=True)


async def judging(pairs: list[tuple[str, str, str]], files: Mapping[str, Path], folder: Path) -> None:
    """Print how many pairs a second are judged under three rules: without verdicts, and from those that are kept."""
    databases = {
        name: open_database(Location("sqlite", str(file.resolve())), name) for name, file in files.items()
    }
    async with SqlWorkers() as workers:
        for what in ("executed", "kept"):
            with VerdictCache(folder / "verdicts.sqlite", workers.limits) as cache:
                judge = Judge(workers, ("bird", "spider", "strict"), 30.0, cache)
                started = time.perf_counter()
                judged = await asyncio.gather(
                    *(judge.verdicts(databases[name], gold, {"it": sql}) for name, sql, gold in pairs)
                )
                seconds = time.perf_counter() - started
            right = sum(verdicts["it"].correct["bird"] for verdicts in judged)
            print(f"judging, {what}: {len(pairs) / seconds:,.0f} pairs/s; right: {right}", flush=True)


def main() -> None:
    options = options_of(__doc__)
    options.add_argument("--data", type=Path, default=Path("data"), help="folder of the benchmarks' files")
    options.add_argument("--changed", type=int, default=4829)
    options.add_argument("--golds", type=int, default=8500)
    given = options.parse_args()
    for package in ("flows", "tasks"):  # as pip does when it installs
        compileall.compile_dir(str(ROOT / package), quiet=1)
    spider, bird = given.data / "spider", given.data / "bird"
    hero = bird / "dev_databases/superhero/superhero.sqlite"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        questions, predicted = superhero(given.data)
        file = given.data / "predictions/bird-dev-gpt-3.5-turbo-knowledge.json"
        published = [("superhero", predicted[str(one["question_id"])], one["SQL"]) for one in questions]
        ids = f"{questions[0]['question_id']}-{questions[-1]['question_id']}"
        pairs = Pairs("published", published, "bird-dev", given.data, file)
        compare(pairs, folder, {"superhero": hero}, "--questions", ids)
        mlflow_alone(folder)
        cut, tables = changed(questions, given.changed), bird / "dev_tables.json"
        many = benchmark_of("changed", folder, "bird", tables, bird / "dev_databases", cut)
        compare(many, folder, {"superhero": hero})
        golds = spider_golds(spider, given.golds)
        files = {name: spider / "database" / name / f"{name}.sqlite" for name, _, _ in golds}
        tables, databases = spider / "tables.json", spider / "database"
        compare(benchmark_of("golds", folder, "spider", tables, databases, golds), folder, files)
        asyncio.run(judging(golds, files, folder))


if __name__ == "__main__":
    main()

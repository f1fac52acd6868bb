"""What share of the input tokens a provider's prefix cache serves, by pipeline setting. A script, not a test:

    python -m tests.benchmarks.prefix_cache --data FOLDER [--in-flight 32] [--latency 0.2]

`crosscheck evaluate` runs RSL-SQL on questions of BIRD dev against a local server that imitates a provider: a request is
served from the cache as far as its beginning equals that of a request which was answered less than five minutes before,
from 1,024 tokens on and in steps of 128 (OpenAI's guide "Prompt caching"). A token is taken as four characters. The
replies are the authors' recorded GPT-4o outputs. Only superhero has its real database; the others have BIRD's schemas
and invented rows, so their scores mean nothing. The last column is what the run itself counted: it must be equal.
"""

import argparse
import json
import re
import sqlite3
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.command_line import CommandLine
from tests.support.fake_openai import Behaviour, Body, FakeOpenAI

LEAST, STEP, TOKEN, KEPT_S = 1024, 128, 4, 300.0
DATABASES = {"european_football_2": 199, "card_games": 115, "california_schools": 89, "superhero": 31}
"""Databases of BIRD dev, and how many columns they have."""
WAYS = {
    "as they come": ("rsl-sql", "backbone.prefix_cache=false"),
    "one question of each database first": ("rsl-sql",),
    "task last": ("rsl-sql", "backbone.prefix_cache=false", "pipeline.prompt.task=last"),
    "both": ("rsl-sql", "pipeline.prompt.task=last"),
    "rsl-sql-economy": ("rsl-sql-economy",),
}


@dataclass
class Provider:
    """A model that answers from the recording, with a prefix cache."""

    replies: Mapping[str, Mapping[str, Any]]  # by question: the recorded link, augmentation and SQLs
    latency: float
    known: dict[int, float] = field(default_factory=dict)  # hash of a beginning: when it is known
    tokens: int = 0
    served: int = 0

    def answer(self, body: Body) -> Behaviour:
        """Answer a request, count what the cache serves of it, and remember its beginnings."""
        text = "\n".join(f"{message['role']}: {message['content']}" for message in body["messages"])
        size, now = len(text) // TOKEN, time.monotonic()
        cached = 0
        beginnings = {n: hash(text[: n * TOKEN]) for n in range(LEAST, size + 1, STEP)}
        for length, beginning in beginnings.items():
            known = self.known.get(beginning)
            if known is None or not known <= now < known + KEPT_S:
                break
            cached = length
        for beginning in beginnings.values():
            self.known.setdefault(beginning, now + self.latency)
        self.tokens, self.served = self.tokens + size, self.served + cached
        usage = {
            "prompt_tokens": size,
            "completion_tokens": 20,
            "total_tokens": size + 20,
            "prompt_tokens_details": {"cached_tokens": cached},
        }
        return Behaviour(content=json.dumps(self._reply(text)), usage=usage, delay=self.latency)

    def _reply(self, text: str) -> Mapping[str, Any]:
        question = " ".join(
            re.findall(r"^### Question\n(.+?)\n\n", text, re.MULTILINE | re.DOTALL)[-1].split()
        )
        own, asked_for = self.replies[question], text.rpartition("### Reply")[2]
        if '"sql"' not in asked_for:
            link = (
                "forward_link"
                if '"sql_keywords"' not in asked_for and '"tables"' in asked_for
                else "augmentation"
            )
            return own[link]
        number = (
            3 if "### SQL 2" in text else 4 if "### SQL 1" in text else 2 if "is reduced to" in text else 1
        )
        return {"sql": own[f"sql{number}"]}


def recorded(data: Path, questions: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the recorded outputs by the question's text."""
    folder = data / "recordings" / "rsl-sql-gpt-4o-bird-dev"
    found: dict[str, list[Any]] = {
        name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("forward_link", "augmentation")
    }
    for number in range(1, 5):
        found[f"sql{number}"] = (folder / f"sql{number}.txt").read_text(encoding="utf-8").splitlines()
    return {
        " ".join(each["question"].split()): {name: rows[each["question_id"]] for name, rows in found.items()}
        for each in questions
    }


def write_benchmark(data: Path, folder: Path, database: str, questions: list[dict[str, Any]]) -> Path:
    """Write a benchmark of one database's questions, and its database with invented rows where it has no real one."""
    tables = json.loads((data / "bird" / "dev_tables.json").read_text(encoding="utf-8"))
    (schema,) = [each for each in tables if each["db_id"] == database]
    home = folder / database
    home.mkdir(parents=True)
    (home / "dev.json").write_text(json.dumps(questions), encoding="utf-8")
    (home / "dev_tables.json").write_text(json.dumps([schema]), encoding="utf-8")
    real = data / "bird" / "dev_databases"
    if not (real / database / f"{database}.sqlite").is_file():
        real = home / "dev_databases"
        invent(schema, real / database / f"{database}.sqlite")
        described = data / "bird" / "dev_databases" / database / "database_description"
        (real / database / "database_description").symlink_to(described)
    content = {
        "description": database, "layout": "bird", "folder": str(home), "databases": str(real), "revision": "simulated",
        "rule": "bird", "train": str(data / "bird" / "train.parquet"),
    }  # fmt: skip
    file = folder / f"{database}.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    return file


def invent(schema: Mapping[str, Any], file: Path) -> None:
    """Write a database of BIRD's schema with three invented rows a table."""
    file.parent.mkdir(parents=True)
    kinds = {"integer": "INTEGER", "real": "REAL"}
    with sqlite3.connect(file) as connection:
        for number, table in enumerate(schema["table_names_original"]):
            columns = [
                (name, kinds.get(kind, "TEXT"))
                for (at, name), kind in zip(
                    schema["column_names_original"], schema["column_types"], strict=True
                )
                if at == number
            ]
            connection.execute(
                f'CREATE TABLE "{table}" ({", ".join(f"`{name}` {kind}" for name, kind in columns)})'
            )
            for row in range(1, 4):
                values = [
                    row if kind == "INTEGER" else row / 2 if kind == "REAL" else f"{name} {row}"
                    for name, kind in columns
                ]
                connection.execute(f'INSERT INTO "{table}" VALUES ({", ".join("?" * len(values))})', values)


def measure(way: str, file: Path, provider: Provider, options: argparse.Namespace, folder: Path) -> str:
    """Run one evaluation and return its row."""
    pipeline, *settings = WAYS[way]
    with FakeOpenAI() as server:
        server.respond, server.keep, server.models = provider.answer, False, 200
        backbone = folder / "simulated.yaml"
        prices = {"input": 1.0, "cached_input": 0.1, "output": 4.0, "as_of": "2026-11-01"}
        content = {
            "model": "simulated", "base_url": server.base_url, "concurrency": options.in_flight, "prices": prices,
            "response_mode": "json_object",
        }  # fmt: skip
        backbone.write_text(yaml.safe_dump(content), encoding="utf-8")
        command = CommandLine(folder / f"home {file.stem} {way}")
        ran = command.run(
            "evaluate", "--benchmark", str(file), "--backbone", str(backbone), "--pipeline", pipeline, "--json",
            "--set", "pipeline.correction.when=error", *(part for one in settings for part in ("--set", one)),
        )  # fmt: skip
    cost = ran.json["cost"]
    calls = cost["calls"] / ran.json["questions"]
    counted = cost["cached_input_tokens"] / cost["input_tokens"]
    share = provider.served / provider.tokens
    return (
        f"| {file.stem} ({DATABASES[file.stem]}) | {way} | {calls:.2f} | {provider.tokens / ran.json['questions']:,.0f} | "
        f"{100 * share:.0f} % | {100 * counted:.0f} % |"
    )


def main() -> None:
    """Print a row for each database and setting."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--latency", type=float, default=0.2)
    parser.add_argument("--databases", nargs="+", choices=DATABASES, default=list(DATABASES))
    options = parser.parse_args()
    every = json.loads((options.data / "bird" / "dev.json").read_text(encoding="utf-8"))
    print("| database (columns) | setting | calls | input tokens | served | counted by the run |")
    print("|---|---|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for database in options.databases:
            questions = [each for each in every if each["db_id"] == database]
            file = write_benchmark(options.data.resolve(), folder, database, questions)
            for way in WAYS:
                provider = Provider(recorded(options.data, questions), options.latency)
                print(measure(way, file, provider, options, folder), flush=True)


if __name__ == "__main__":
    main()

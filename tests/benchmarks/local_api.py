"""A local chat API of a set latency, in a process of its own, so that it takes no time from what is measured."""

import hashlib
import json
import math
import multiprocessing
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection
from statistics import NormalDist
from typing import Any

from tasks.benchmarks.benchmark import Benchmark
from tasks.database.schema import Schema
from tasks.scoring.linking import gold_link
from tests.support.fake_openai import FakeOpenAI


def delay(body: dict[str, Any], latency: float, tail: float) -> float:
    """Return the latency of a request: log-normal with that mean, the same for the same messages.

    Args:
        body: the request.
        latency: mean of the distribution in seconds.
        tail: standard deviation of its logarithm; 0: every request takes `latency`. With 1, one in a hundred takes six
            times the mean.
    """
    if not tail:
        return latency
    digest = hashlib.sha256(str(body["messages"][-1]["content"]).encode()).digest()
    share = (int.from_bytes(digest[:8], "big") + 0.5) / 2**64
    return latency * math.exp(tail * NormalDist().inv_cdf(share) - tail * tail / 2)


def replies_as_in_life(benchmark: Benchmark, schemas: Mapping[str, Schema]) -> dict[str, dict[str, Any]]:
    """Return what a good model replies to each question, by its text: the gold SQL, and what it links."""
    replies = {}
    for question in benchmark.questions:
        gold = benchmark.gold.get(question.id, "SELECT 1")
        link = gold_link(gold, schemas[question.database_id])
        columns = [f"{column.table}.{column.column}" for column in link.columns]
        replies[question.text] = {
            "tables": list(link.tables), "columns": columns, "sql_keywords": ["SELECT"], "conditions": [question.text],
            "sql": gold,
        }  # fmt: skip
    return replies


def reply_as_in_life(body: dict[str, Any], replies: Mapping[str, Mapping[str, Any]]) -> str:
    """Answer a prompt in the form that it asks for.

    The SQL has a comment that differs from stage to stage, as the SQL of a model does: one that is the gold word for
    word, or that of the stage before, would not be executed.
    """
    prompt = str(body["messages"][-1]["content"])
    question = prompt.rpartition("### Question\n")[2].partition("\n### ")[0].strip()
    if question not in replies:  # the probe of the response mode
        return '{"sql": "SELECT 1", "tables": [], "better": 1}'
    reply = dict(replies[question])
    task = zlib.crc32(prompt.partition("### Task\n")[2][:200].encode())
    reply["sql"] = f"{reply['sql'].rstrip().rstrip(';')} /* {task:08x} */"
    wanted = (body.get("response_format", {}).get("json_schema") or {}).get("schema", {}).get("properties")
    return json.dumps({key: value for key, value in reply.items() if wanted is None or key in wanted})


def _serve(
    latency: float,
    tail: float,
    reply: str | Mapping[str, Mapping[str, Any]],
    connection: Connection,
) -> None:
    with FakeOpenAI() as server:
        server.keep = False
        server.delay = lambda body: delay(body, latency, tail)
        server.answer = lambda body: reply if isinstance(reply, str) else reply_as_in_life(body, reply)
        connection.send(server.base_url)
        connection.recv()


@contextmanager
def local_api(
    latency: float, tail: float = 0.0, reply: str | Mapping[str, Mapping[str, Any]] = '{"sql": "SELECT 1"}'
) -> Iterator[str]:
    """Serve the API while the block lasts; yield its base URL. `reply` is one text, or `replies_as_in_life`."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(latency, tail, reply, there), daemon=True
    )
    process.start()
    try:
        yield here.recv()
    finally:
        here.send("end")
        process.join(timeout=10)

"""A local chat API of a set latency, in a process of its own, so that it takes no time from what is measured."""

import hashlib
import math
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from statistics import NormalDist
from typing import Any

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


def _serve(latency: float, tail: float, reply: str, connection: Connection) -> None:
    with FakeOpenAI() as server:
        server.keep = False
        server.delay = lambda body: delay(body, latency, tail)
        server.answer = lambda body: reply
        connection.send(server.base_url)
        connection.recv()


@contextmanager
def local_api(latency: float, tail: float = 0.0, reply: str = '{"sql": "SELECT 1"}') -> Iterator[str]:
    """Serve the API while the block lasts; yield its base URL."""
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

"""A model whose answers differ between identical requests: a fake of a hosted model at temperature 0.

Hosted models do not repeat themselves at temperature 0, since their requests are computed in batches. The fake answers
as another model does, except for a share of the questions. Those are unstable: each second answer to one, at random,
has another SQL text, and every second such text is wrong. Answers to different requests are independent, and the nth
answer to a request is always the same, in whatever order requests arrive.
"""

import hashlib
import json
import threading
from collections import Counter
from collections.abc import Callable
from random import Random

from tests.support.fake_openai import Body


class NoisyModel:
    """Answers requests; its calls are counted.

    Args:
        answer: the answers without noise, as JSON with the key sql.
        text_rate: share of the questions whose SQL text differs between two runs.
        seed: of the noise.
    """

    def __init__(self, answer: Callable[[Body], str], text_rate: float, seed: int = 0) -> None:
        self.answer = answer
        self.unstable = text_rate / 0.75  # two answers to an unstable question are equal in one of four cases
        self.calls = 0
        self._seed = seed
        self._asked: Counter[str] = Counter()
        self._lock = threading.Lock()

    def __call__(self, body: Body) -> str:
        """Answer a request."""
        text = self.answer(body)
        with self._lock:
            self.calls += 1
            request = _digest(body).hex()
            self._asked[request] += 1
            random = Random(f"{self._seed} {request} {self._asked[request]}")
        changed, wrong = random.random() < 0.5, random.random() < 0.5
        number = random.randint(1, 1_000_000_000)
        if not changed or not self.is_unstable(body):
            return text
        sql = json.loads(text).get("sql") or "SELECT 1"
        return json.dumps({"sql": f"SELECT 'wrong {number}'" if wrong else f"{sql} -- {number}"})

    def is_unstable(self, body: Body) -> bool:
        """Return whether the answers to a request vary."""
        return int.from_bytes(_digest(body)[:6], "big") / 2**48 < self.unstable


def _digest(body: Body) -> bytes:
    return hashlib.sha256(str(body["messages"]).encode()).digest()

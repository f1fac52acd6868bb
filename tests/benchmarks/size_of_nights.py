r"""How many megabytes a nightly run adds to the working folder. A script, not a test:

    python tests/benchmarks/size_of_nights.py [--nights 3] [--changed 0.1]

The nightly flow runs four pipelines on the demo (452 questions) with `ask_again`, on a real Prefect server. The model is a
fake of a hosted one behind a real API: in every night, a share of its SQL differs from the night before, half of it
wrongly. It prints what every night added to each file and folder. The first night also has what is written once.
"""

import argparse
import asyncio
import hashlib
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks.noisy_nights import prefect_server, prepared
from tests.flows.conftest import answer_as_offline
from tests.support.fake_openai import Body, FakeOpenAI

PIPELINES = ["zero-shot", "few-shot", "rsl-sql", "dac"]


class Model:
    """Answers as the offline backbone does, with a share of other SQL in each night."""

    def __init__(self, changed: float) -> None:
        self.changed = changed
        self.night = 0
        self._answers: dict[str, str] = {}

    def __call__(self, body: Body) -> str:
        """Answer a request."""
        asked = str(body["messages"])
        if asked not in self._answers:
            self._answers[asked] = answer_as_offline(body)
        text = self._answers[asked]
        digest = hashlib.sha256(f"{self.night} {asked}".encode()).digest()
        if int.from_bytes(digest[:6], "big") / 2**48 >= self.changed:
            return text
        answer = json.loads(text) if text.startswith("{") else {}
        if not answer.get("sql"):
            return text
        sql = f"SELECT 'wrong {self.night}'" if digest[6] % 2 else f"{answer['sql']} -- {self.night}"
        return json.dumps(answer | {"sql": sql})


async def run_night(backbone: str, name: str) -> None:
    """Run a night."""
    from flows.evaluate.forms import Matrix
    from flows.matrix.nightly import nightly
    from tasks.settings.choices import Gate

    matrix = Matrix(backbones=[backbone], pipelines=PIPELINES)
    await nightly(matrix, Gate(), ask_again=True, night=name, return_state=True)


def sizes(home: Path) -> dict[str, float]:
    """Return the megabytes of each file and folder of the working folder; a log of SQLite belongs to its file."""
    found: dict[str, float] = {}
    for path in home.iterdir():
        files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
        name = path.name.removesuffix("-wal").removesuffix("-shm")
        found[name] = found.get(name, 0.0) + sum(each.stat().st_size for each in files) / 1e6
    return found


def main() -> None:
    """Run the nights, and print what each added."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nights", type=int, default=3)
    parser.add_argument("--changed", type=float, default=0.1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, FakeOpenAI() as server:
        home, backbone = prepared(Path(folder), server)
        server.answer = model = Model(given.changed)
        before: dict[str, float] = {}
        with prefect_server(home):
            for model.night in range(given.nights):
                asyncio.run(run_night(backbone, f"n{model.night}"))
                after = sizes(home.path)
                added = {name: size - before.get(name, 0.0) for name, size in after.items()}
                parts = ", ".join(
                    f"{name} {size:.2f}"
                    for name, size in sorted(added.items(), key=lambda part: -part[1])
                    if size >= 0.01
                )
                total = sum(size for name, size in added.items() if name not in ("prefect", "crosscheck.log"))
                print(f"night {model.night}: {total:.1f} MB without Prefect's store: {parts}", flush=True)
                before = after


if __name__ == "__main__":
    main()

r"""How often nights are red or amber when nothing changes but the model is noisy. A script, not a test:

    python tests/benchmarks/noisy_nights.py [--nights 100] [--text-rates 0.05,0.27] [--repeats 5]

For each rate: a model behind a real API (`tests.support.noisy_model`, a fake of a hosted model) whose SQL texts differ in
that share of the questions between two runs. Its noise is measured by `crosscheck evaluate --repeats`. Then the nightly flow runs on
the demo benchmark with new replies each night, on a real Prefect server. It prints how many nights had each verdict, with
the measured flip rate and as the same nights are judged without it. A verdict other than green is a false alarm. The gate
promises that at most 1 % of the nights are red by a regression (`Gate.level`) and 5 % "possibly worse" (`doubt_level`).
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from flows.prefect.server import LocalServer
from flows.prefect.settings import CLIENT, apply, local_settings
from tasks.results.night import all_nights, judge
from tasks.settings.choices import Gate
from tasks.settings.home import Home
from tests.benchmarks.parts import crosscheck
from tests.flows.conftest import answer_as_offline
from tests.support.fake_openai import Body, FakeOpenAI
from tests.support.noisy_model import NoisyModel

GATE = Gate()
BACKBONE = """\
kind: openai
model: noisy-model
base_url: {url}
concurrency: 8
prices: {{input: 1.0, output: 2.0, as_of: 2026-11-21}}
"""


def remembering(answer: Callable[[Body], str]) -> Callable[[Body], str]:
    """Compute each answer once."""
    answers: dict[str, str] = {}

    def remember(body: Body) -> str:
        key = str(body["messages"])
        if key not in answers:
            answers[key] = answer(body)
        return answers[key]

    return remember


def prepared(folder: Path, server: FakeOpenAI) -> tuple[Home, str]:
    """Make a working folder that this process uses, and the settings of a model at a server."""
    home, backbone = Home(folder / "home"), folder / "hosted.yaml"
    home.path.mkdir()
    os.environ["CROSSCHECK_HOME"] = str(home.path)
    backbone.write_text(BACKBONE.format(url=server.base_url), encoding="utf-8")
    return home, str(backbone)


@contextmanager
def prefect_server(home: Home) -> Iterator[None]:
    """Run Prefect's server for nights in this process."""
    os.environ.update(local_settings(home))
    apply({**local_settings(home), **CLIENT})
    with LocalServer(home) as server:
        server.wait()
        yield


async def run_nights(backbone: str, nights: int) -> None:
    """Run nights one after the other."""
    from flows.evaluate.forms import Matrix
    from flows.matrix.nightly import nightly

    matrix = Matrix(backbones=[backbone], pipelines=["few-shot"])
    for number in range(nights):
        await nightly(matrix, GATE, ask_again=True, night=f"n{number:04d}", return_state=True)


def measure(text_rate: float, nights: int, repeats: int) -> None:
    """Simulate a model with this noise, and print what its nights were."""
    with tempfile.TemporaryDirectory() as folder, FakeOpenAI() as server:
        home, backbone = prepared(Path(folder), server)
        server.answer = NoisyModel(remembering(answer_as_offline), text_rate)
        words = ("--backbone", backbone, "--pipeline", "few-shot", "--repeats", str(repeats), "--json")
        found = json.loads(crosscheck(home.path, "evaluate", *words))["noise"]
        print(
            f"SQL texts that change: {100 * text_rate:.1f} %, verdicts that flip: "
            f"{100 * found['flip_rate']:.2f} % (at most {100 * found['flip_bound']:.2f} %), {repeats} repeats"
        )
        with prefect_server(home):
            asyncio.run(run_nights(backbone, nights))
        judged = all_nights(home)
        tested = [entry for night in judged for entry in night.entries if entry.comparison]
        decided = sum(bool(entry.noise and entry.noise.decides) for entry in tested)
        print(f"  {len(judged)} nights, {len(tested)} compared, {decided} judged by the measured flip rate")
        others = [judge(GATE, [replace(entry, noise=None)])[0] for entry in tested]
        for name, entries in (("with the measurement", tested), ("without it", others)):
            verdicts = Counter(str(entry.verdict) for entry in entries)
            small = [sum((entry.p_value or 1.0) < level for entry in entries) for level in (0.01, 0.05)]
            print(
                f"  {name}: {dict(verdicts.most_common())}; p < 0.01 in {small[0]}, p < 0.05 in {small[1]} of "
                f"{len(entries)}"
            )


def main() -> None:
    """Measure each rate."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nights", type=int, default=100)
    parser.add_argument("--text-rates", default="0.05,0.27")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    for rate in given.text_rates.split(","):
        measure(float(rate), given.nights, given.repeats)


if __name__ == "__main__":
    main()

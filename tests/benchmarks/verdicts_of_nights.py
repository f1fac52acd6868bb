r"""How often a nightly run is red or amber on noise, on a loss of 3 points, and on a drift. A script, not a test:

    python tests/benchmarks/verdicts_of_nights.py [--worlds 200] [--nights 100] [--measured 5]

A simulated evaluation has questions that are always right, questions that are always wrong, and questions that are
right every other time by chance, so that a given share of answers flips between two nights: 6 % of BIRD dev's 1,534
questions, 4 % of the demo's 113, and nearly none. From one night on, questions that were always right are always wrong:
3 points of them at once, or 0.5 points more each night. Tests, levels and baselines are those of nightly runs
(`tasks.results.night`).

It prints, with counts, how many nights were red and amber on noise; after how many nights of a loss and of a drift
the first verdict was amber or red, and red. With `--measured`, the flip rate was measured on so many repeats before the first night, as
`crosscheck evaluate --repeats` does, and nights are judged by it where that proves more. The defaults of `Gate` were chosen by it.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tasks.results.night import AMBER, WORSE, NightEntry, judge
from tasks.results.noise import MeasuredNoise, measured_rate
from tasks.scoring.significance import compare_runs, trend_of
from tasks.settings.choices import Gate

GATE = Gate()
QUIET = 30
"""Nights before a loss or a drift begins."""
SINCE = 28
"""Nights for which a loss or a drift is watched."""
NEVER = 1_000
RIGHT = 0.6
"""Share of the questions without chance that are right."""


@dataclass(frozen=True)
class Change:
    """What happens to the scores: points lost at once, and points lost each night."""

    name: str
    once: float = 0.0
    nightly: float = 0.0

    def lost(self, nights: int) -> float:
        """Return the points that are lost after so many nights; 0 before it begins."""
        return self.once + self.nightly * nights if nights > 0 else 0.0


NOISE = Change("noise")
LOSS, DRIFT = Change("a loss of 3 points", 3.0), Change("a drift of 0.5 points", 0.0, 0.5)


@dataclass(frozen=True)
class World:
    """Size of a benchmark, and the share of its answers that flip between two nights."""

    questions: int
    flips: float


class Evaluation:
    """A simulated evaluation: what its nights score, and what it is compared with."""

    def __init__(self, world: World, change: Change, random: np.random.Generator, repeats: int) -> None:
        chance = int(world.questions * 2 * world.flips)
        right = int((world.questions - chance) * RIGHT)
        self.rates = np.repeat([0.5, 1.0, 0.0], [chance, right, world.questions - chance - right])
        self.order = chance + random.permutation(right)
        self.change, self.random = change, random
        self.noise: MeasuredNoise | None = None
        if repeats:
            counts = [int(count) for count in random.binomial(repeats, self.rates)]
            self.noise = measured_rate("r", counts, repeats, GATE.level)
        self.baseline: dict[str, bool] = {}
        self.tonight: dict[str, bool] = {}
        self.scores: list[float] = []

    def ask(self, nights: int) -> NightEntry:
        """Ask the questions of one night, so many nights after the change began."""
        rates = self.rates.copy()
        rates[self.order[: round(self.change.lost(nights) * len(rates) / 100)]] = 0.0
        answers = self.random.random(len(rates)) < rates
        self.tonight = {str(place): bool(right) for place, right in enumerate(answers)}
        self.scores.append(float(answers.mean()))
        found = (
            compare_runs(self.baseline, self.tonight, confidence=1 - GATE.level) if self.baseline else None
        )
        return NightEntry(
            "b",
            "m",
            "p",
            run=None,
            comparison=found,
            noise=self.noise,
            decline=trend_of(self.scores[-GATE.trend_nights :]),
        )

    def settle(self, verdict: str) -> None:
        """Choose the baseline of the next night."""
        if verdict not in WORSE:
            self.baseline = self.tonight


def verdicts(world: World, change: Change, given: argparse.Namespace, seed: int) -> Iterator[str]:
    """Yield the verdicts of one world, night by night."""
    evaluation = Evaluation(world, change, np.random.default_rng(seed), given.measured)
    for night in range(given.nights if change is NOISE else QUIET + SINCE):
        (judged,) = judge(GATE, [evaluation.ask(night - QUIET + 1)])
        evaluation.settle(judged.verdict)
        yield judged.verdict


def rates(world: World, given: argparse.Namespace) -> None:
    """Print how often each verdict comes of noise."""
    count: Counter[str] = Counter()
    for seed in range(given.worlds):
        count.update(verdicts(world, NOISE, given, seed))
    nights = count.total()
    print(f"  noise: {nights:,} nights")
    for name, wanted in (("red", ("regression",)), ("amber", AMBER)):
        found = sum(count[verdict] for verdict in wanted)
        print(f"    {name:15} {found:6,} of {nights:,}  {100 * found / nights:5.2f} %")


def delays(world: World, change: Change, given: argparse.Namespace) -> None:
    """Print after how many nights a change is first amber or red, and red."""
    first: dict[str, list[int]] = {"amber or red": [], "red": []}
    for seed in range(given.worlds):
        found = [*verdicts(world, change, given, seed)][QUIET:]
        for name, wanted in (("amber or red", WORSE), ("red", ("regression",))):
            first[name].append(next((night for night, each in enumerate(found, 1) if each in wanted), NEVER))
    print(f"  {change.name}: {given.worlds:,} times")
    for name, nights in first.items():
        within = "  ".join(
            f"{sum(each <= most for each in nights):4,} within {most}" for most in (1, 3, 7, 14, SINCE)
        )
        middle = median(nights)
        print(f"    {name:15} {within}   median {'never' if middle > SINCE else f'{middle:g}'}")


def main() -> None:
    """Simulate two sizes of benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--nights", type=int, default=100)
    parser.add_argument("--measured", type=int, default=0)
    given = parser.parse_args()
    print(f"{GATE!r}\nflip rate measured on {given.measured} repeats")
    for world in (World(1534, 0.06), World(500, 0.05), World(113, 0.04), World(1534, 0.005), World(113, 0.0)):
        print(
            f"{world.questions:,} questions, {100 * world.flips:g} % of the answers flip between two nights"
        )
        rates(world, given)
        delays(world, LOSS, given)
        delays(world, DRIFT, given)


if __name__ == "__main__":
    main()

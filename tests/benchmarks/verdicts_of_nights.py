r"""How often a nightly run is red or amber on noise, on a loss of 3 points, and on a drift. A script, not a test:

    python tests/benchmarks/verdicts_of_nights.py [--worlds 200] [--nights 100] [--evaluations 3] [--next-baseline any]
        [--measured 5]

A simulated evaluation has questions that are always right, questions that are always wrong, and questions that are
right every other time by chance, so that a given share of answers flips between two nights: 6 % of BIRD dev's 1,534
questions, 4 % of the demo's 113, and nearly none. From one night on, questions that were always right are always wrong:
3 points of them at once, or 0.5 points more each night. Tests, levels and baselines are those of nightly runs
(`tasks.tracking.night`).

It prints, with counts, how many evaluations had each verdict on noise; after how many nights of a loss and of a drift
the first verdict was amber or red, and red; and the same if every night became the baseline of the next, which hides a
drift (`--next-baseline any`). With `--measured`, the flip rate was measured on so many repeats before the first night, as
`crosscheck evaluate --repeats` does, and nights are judged by it where that proves more. The defaults of `Gate` were chosen by it.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from tasks.results.night import AMBER, WORSE, NightEntry, judge, trend_of
from tasks.results.noise import MeasuredNoise, measured_rate
from tasks.scoring.significance import compare_runs
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


NOISE, LOSS, DRIFT = (
    Change("noise"),
    Change("a loss of 3 points", 3.0),
    Change("a drift of 0.5 points", 0.0, 0.5),
)


@dataclass(frozen=True)
class World:
    """Size of a benchmark, and the share of its answers that flip between two nights."""

    questions: int
    flips: float


class Evaluation:
    """A simulated evaluation: what its nights score, and what it is compared with."""

    def __init__(
        self,
        world: World,
        change: Change,
        random: np.random.Generator,
        *,
        any_baseline: bool,
        repeats: int = 0,
    ) -> None:
        chance = int(world.questions * 2 * world.flips)
        right = int((world.questions - chance) * RIGHT)
        self.rates = np.repeat([0.5, 1.0, 0.0], [chance, right, world.questions - chance - right])
        self.order = chance + random.permutation(right)
        self.change, self.random, self.any_baseline = change, random, any_baseline
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
        if self.any_baseline or verdict not in WORSE:
            self.baseline = self.tonight


def verdicts(world: World, change: Change, given: argparse.Namespace, seed: int) -> Iterator[Sequence[str]]:
    """Yield the verdicts of one world, night by night."""
    random = np.random.default_rng(seed)
    evaluations = [
        Evaluation(world, change, random, any_baseline=given.next_baseline == "any", repeats=given.measured)
        for _ in range(given.evaluations)
    ]
    nights = given.nights if change is NOISE else QUIET + SINCE
    for night in range(nights):
        judged = judge(GATE, [each.ask(night - QUIET + 1) for each in evaluations])
        for each, found in zip(evaluations, judged, strict=True):
            each.settle(found.verdict)
        yield [each.verdict for each in judged]


def rates(world: World, given: argparse.Namespace) -> None:
    """Print how often each verdict comes of noise."""
    count: Counter[str] = Counter()
    coloured = Counter({"red": 0, "amber": 0})
    nights = 0
    for seed in range(given.worlds):
        for found in verdicts(world, NOISE, given, seed):
            count.update(found)
            nights += 1
            colour = "red" if "regression" in found else "amber" if set(found) & set(AMBER) else "green"
            coloured[colour] += 1
    evaluations = nights * given.evaluations
    print(f"  noise: {nights:,} nights, {evaluations:,} evaluations")
    for name in WORSE:
        print(f"    {name:15} {count[name]:6,} evaluations  {100 * count[name] / evaluations:5.2f} %")
    for name in ("red", "amber"):
        print(
            f"    {name + ' nights':15} {coloured[name]:6,} of {nights:,}  {100 * coloured[name] / nights:5.2f} %"
        )


def delays(world: World, change: Change, given: argparse.Namespace) -> None:
    """Print after how many nights a change is first amber or red, and red."""
    first: dict[str, list[int]] = {"amber or red": [], "red": []}
    for seed in range(given.worlds):
        found = [night[0] for night in verdicts(world, change, given, seed)][QUIET:]
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
    parser.add_argument("--evaluations", type=int, default=1)
    parser.add_argument("--next-baseline", choices=["not-worse", "any"], default="not-worse")
    parser.add_argument("--measured", type=int, default=0)
    given = parser.parse_args()
    print(
        f"{GATE!r}\n{given.evaluations} evaluations a night, next baseline: {given.next_baseline}, "
        f"flip rate measured on {given.measured} repeats"
    )
    for world in (World(1534, 0.06), World(500, 0.05), World(113, 0.04), World(1534, 0.005), World(113, 0.0)):
        print(
            f"{world.questions:,} questions, {100 * world.flips:g} % of the answers flip between two nights"
        )
        rates(world, given)
        delays(world, LOSS, given)
        delays(world, DRIFT, given)


if __name__ == "__main__":
    main()

"""Compares retrievers of demonstrations by the SQL that they find, and measures what an encoder costs. A script:

    python -m tests.benchmarks.measure_retrieval --data FOLDER --encoder FOLDER [--benchmarks spider-dev bird-dev:717-845]

For each question, the `k` nearest training questions are retrieved, leaks removed, as an evaluation does it. A demonstration
counts if its SQL has the skeleton of the question's gold SQL (`tasks.sql.skeleton`). The table has the share of
demonstrations that do, and the share of questions with at least one. Gold SQL is read here only: no run sees this analysis.
`--cost N` encodes N different questions in a process of its own, without kept vectors, and prints seconds and peak memory.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from flows.evaluate.demonstration_search import DemonstrationSearch
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from tasks.benchmarks.selection import select
from tasks.core.records import Demonstration
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice
from tasks.settings.evaluation import EvaluationSettings
from tasks.sql.skeleton import skeleton
from tests.benchmarks.parts import options_of

K = 3
DIALECT = "sqlite"


@dataclass(frozen=True)
class Shares:
    """Demonstrations and questions with the gold's skeleton, each with its denominator."""

    demonstrations: int
    shown: int
    questions: int
    asked: int

    def __str__(self) -> str:
        by_demonstration = (
            f"{self.demonstrations:,} of {self.shown:,} ({self.demonstrations / self.shown:.2%})"
        )
        return (
            f"{by_demonstration} | {self.questions:,} of {self.asked:,} ({self.questions / self.asked:.2%})"
        )


def shares(found: Iterable[tuple[str, Sequence[Demonstration]]]) -> Shares:
    """Count over pairs of gold SQL and demonstrations; a gold without a skeleton counts as found by none."""
    same = [
        sum(skeleton(each.sql, DIALECT) == wanted for each in shown) if wanted else 0
        for gold, shown in found
        for wanted in (skeleton(gold, DIALECT),)
    ]
    return Shares(sum(same), K * len(same), sum(map(bool, same)), len(same))


def settings_of(benchmark: str, data: str, home: str, *overrides: str) -> EvaluationSettings:
    name, _, questions = benchmark.partition(":")
    return evaluation_settings(
        EvaluationChoice(
            benchmark=name, backbone="offline", pipeline="few-shot", questions=questions or None, data=data, home=home,
            overrides=(f"pipeline.demonstrations.k={K}", *overrides),
        )
    )  # fmt: skip


def compare(benchmark: str, given: argparse.Namespace, home: str) -> None:
    """Print a row for each retriever."""
    for retriever in ("bm25", "embedding"):
        for mask in ("false", "true"):
            settings = settings_of(
                benchmark, given.data, home, f"pipeline.demonstrations.retriever={retriever}",
                f"pipeline.demonstrations.mask={mask}", f"pipeline.demonstrations.encoder={given.encoder}",
            )  # fmt: skip
            split = Folders.of(settings).benchmark(settings.benchmark)
            questions = select(split.questions, settings)
            began = time.monotonic()
            extras = DemonstrationSearch(split, settings, Progress()).choose(questions)
            seconds = time.monotonic() - began
            counted = shares((split.gold[each.id], extras[each.id].demonstrations) for each in questions)
            name = f"{retriever}{', masked' if mask == 'true' else ''}"
            print(f"| {benchmark} | {name} | {counted} | {seconds:.1f} s |", flush=True)


def cost(given: argparse.Namespace) -> None:
    """Encode training questions of BIRD, and print seconds and peak memory of this process."""
    from tasks.retrieval.demonstrations import nearest_by_meaning
    from tasks.retrieval.encoder_files import Encoder

    split = Folders.of(settings := settings_of("bird-dev", given.data, given.data)).benchmark(
        settings.benchmark
    )
    texts = list(dict.fromkeys(each.question for each in split.demonstrations))[: given.cost]
    before, began, used = (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        time.monotonic(),
        time.process_time(),
    )
    encoder = Encoder(given.encoder)
    encoder.embed(texts)
    encoded, processor = time.monotonic() - began, time.process_time() - used
    began = time.monotonic()
    nearest_by_meaning(texts, texts[:100], K, encoder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{len(texts):,} questions encoded in {encoded:.0f} s ({processor:.0f} s of processor time), the same and 100 questions ranked in {time.monotonic() - began:.1f} s; "
        f"peak memory {peak / 1024:,.0f} MiB ({before / 1024:,.0f} MiB before)"
    )


def main() -> None:
    parser = options_of(__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--encoder", required=True)
    parser.add_argument("--benchmarks", nargs="+", default=["spider-dev", "bird-dev:717-845"])
    parser.add_argument("--cost", type=int, metavar="N")
    given = parser.parse_args()
    if given.cost:
        cost(given)
        return
    with tempfile.TemporaryDirectory() as home:
        for benchmark in given.benchmarks:
            compare(benchmark, given, home)


if __name__ == "__main__":
    main()

"""Measures prompts: tokens of each stage per question, and how much two questions of one database share. A script:

    python -m tests.benchmarks.measure_prompts --data FOLDER [--pipelines rsl-sql dac] [--questions 717-845]
    python -m tests.benchmarks.measure_prompts --data FOLDER --table      # a row per pipeline, as in docs/cost.md

The offline backbone takes the questions of BIRD's superhero database through each pipeline, and what each stage sends
is counted with tiktoken's `o200k_base`, or as four characters a token where tiktoken or its encoding is missing. The shared
prefix is the part that a stage's prompts of consecutive questions begin with alike, as a share of their length: what a
provider's prefix cache can serve.
"""

import argparse
import asyncio
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import click

from tests.support.offline_run import OfflineRun, offline_run

PIPELINES = (
    *("zero-shot", "few-shot", "native", "rsl-sql", "rsl-sql-economy", "rsl-sql-strong", "rsl-sql-acl"),
    *("rsl-sql-spider", "dac", "sea-sql", "rsl-sql+dac"),
)
USD_INPUT, USD_OUTPUT = 0.75, 4.5
"""Prices of the example, in USD per million tokens."""
AUTHORS = {"rsl-sql": 8857}
"""Input tokens a question with the RSL-SQL authors' own prompts on the 129 superhero questions."""

Counter = Callable[[str], int]


def counter() -> Counter:
    """Return a function that counts tokens."""
    try:
        import tiktoken

        encoding = tiktoken.get_encoding("o200k_base")
    except (ImportError, OSError):
        click.echo("A token is taken as four characters: tiktoken or its encoding is missing.", err=True)
        return lambda text: len(text) // 4
    return lambda text: len(encoding.encode(text, disallowed_special=()))


def common_length(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def shared(prompts: Sequence[str], count: Counter) -> float:
    """Return the mean share of tokens that consecutive prompts begin with alike."""
    shares = [
        count(other[: common_length(one, other)]) / max(count(other), 1) for one, other in pairwise(prompts)
    ]
    return fmean(shares) if shares else 0.0


def report(name: str, run: OfflineRun, count: Counter) -> None:
    """Print a pipeline's table."""
    by_stage: dict[str, list[str]] = defaultdict(list)
    for exchanges in run.heard.values():
        for exchange in exchanges:
            by_stage[exchange.stage].append(exchange.prompt)
    questions, total = len(run.heard), 0.0
    click.echo(f"{name}: {questions} questions")
    click.echo(
        f"  {'stage':<26}{'calls':>8}{'input':>9}{'a call':>9}{'shared':>9}   tokens a question, and per call"
    )
    for stage, prompts in by_stage.items():
        tokens = sum(map(count, prompts))
        total += tokens / questions
        click.echo(
            f"  {stage:<26}{len(prompts) / questions:>8.2f}{tokens / questions:>9,.0f}"
            f"{tokens / len(prompts):>9,.0f}{shared(prompts, count):>9.0%}"
        )
    calls = sum(map(len, by_stage.values())) / questions
    click.echo(f"  {'together':<26}{calls:>8.2f}{total:>9,.0f}{'':>9}")
    if name in AUTHORS:
        click.echo(f"  {'with the authors prompts':<26}{'':>8}{AUTHORS[name]:>9,}")


def row(name: str, run: OfflineRun, count: Counter) -> str:
    """Return a pipeline's row of a Markdown table: calls, tokens and money per question."""
    exchanges = [exchange for each in run.heard.values() for exchange in each]
    questions = len(run.heard)
    read = sum(count(each.prompt) for each in exchanges) / questions
    written = sum(count(each.reply) for each in exchanges) / questions
    usd = (USD_INPUT * read + USD_OUTPUT * written) / 1e6
    return (
        f"| `{name}` | {len(exchanges) / questions:.2f} | {read:,.0f} | {written:,.0f} | ${1000 * usd:.2f} |"
    )


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", required=True, help="folder of the benchmark's files")
    options.add_argument("--benchmark", default="bird-dev")
    options.add_argument("--questions", default="717-845")
    options.add_argument("--pipelines", nargs="*", default=PIPELINES)
    options.add_argument("--set", action="append", default=[], dest="overrides", help="as of crosscheck")
    options.add_argument("--table", action="store_true", help="print a row per pipeline")
    chosen = options.parse_args()
    count = counter()
    with tempfile.TemporaryDirectory() as home:
        for name in chosen.pipelines:
            run = asyncio.run(
                offline_run(
                    name,
                    *chosen.overrides,
                    home=Path(home),
                    benchmark=chosen.benchmark,
                    data=chosen.data,
                    questions=chosen.questions,
                    eliminator=True,
                )
            )
            if chosen.table:
                click.echo(row(name, run, count))
            else:
                report(name, run, count)


if __name__ == "__main__":
    main()

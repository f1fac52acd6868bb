"""Measures what a question of each pipeline costs: the table of docs/cost.md. A script:

    python -m tests.benchmarks.measure_prompts --data FOLDER [--pipelines rsl-sql dac] [--questions 717-845]

The offline backbone takes the questions of BIRD's superhero database through each pipeline, and what each stage sends
is counted with tiktoken's `o200k_base`, or as four characters a token where tiktoken or its encoding is missing.
"""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

import click

from tests.benchmarks.parts import options_of
from tests.support.offline_run import OfflineRun, offline_run

PIPELINES = (
    *("zero-shot", "few-shot", "native", "rsl-sql", "rsl-sql-economy", "rsl-sql-strong", "rsl-sql-acl"),
    *("rsl-sql-spider", "dac", "sea-sql", "rsl-sql+dac"),
)
USD_INPUT, USD_OUTPUT = 0.75, 4.5
"""Prices of the example, in USD per million tokens."""

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
    options = options_of(__doc__)
    options.add_argument("--data", required=True, help="folder of the benchmark's files")
    options.add_argument("--benchmark", default="bird-dev")
    options.add_argument("--questions", default="717-845")
    options.add_argument("--pipelines", nargs="*", default=PIPELINES)
    options.add_argument("--set", action="append", default=[], dest="overrides", help="as of crosscheck")
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
            click.echo(row(name, run, count))


if __name__ == "__main__":
    main()

"""`crosscheck reproduce`."""

import asyncio
import importlib
import sys
from dataclasses import dataclass

import click

from flows.cli import options
from flows.cli.output import emit_json
from flows.report.exit_codes import ExitCode

NAMES = ("rsl-sql-linking", "rsl-sql-stages", "superhero", "spider-dail")
"""What can be reproduced, each by the module of its name."""


@dataclass(frozen=True, kw_only=True)
class ReproduceOptions(options.Files):
    """Options of `crosscheck reproduce`."""

    names: tuple[str, ...] = options.argument(nargs=-1, metavar="[NAME]...", type=click.Choice(NAMES))


@click.command(
    "reproduce",
    epilog="\b\nWhat can be reproduced:\n"
    "  rsl-sql-linking   schema linking of RSL-SQL with GPT-4o on BIRD dev, from its recorded replies\n"
    "  rsl-sql-stages    correct, fixed and broken answers of each of its stages, from the authors' verdicts\n"
    "  superhero         RSL-SQL replayed, and BIRD's baseline, executed on the superhero database\n"
    "  spider-dail       DAIL-SQL's predictions on Spider dev, beside the official test-suite evaluator\n"
    "\n\b\nExamples:\n  crosscheck reproduce --data ~/text2sql\n"
    "  crosscheck reproduce rsl-sql-linking --data ~/text2sql --json\n"
    "\nExit codes: 0 every figure matches the published one, or the one expected here; 1 some differ;\n"
    "2 bad input or configuration.",
)
@options.record(ReproduceOptions)
def command(given: ReproduceOptions) -> int:
    """Compute published figures with Crosscheck and print both; without a NAME, all of them.

    If no figure was published, or the data differ from the authors' data, the figure is compared with the expected one.
    Calls no model and logs nothing. It shows that Crosscheck's metrics are those of the papers.
    """
    from flows.cli.progress import open_progress
    from flows.reproduction.published import Sources

    reproductions = []
    for name in given.names or NAMES:
        module = importlib.import_module(f"flows.reproduction.{name.replace('-', '_')}")
        with open_progress(sys.stderr) as progress:
            reproductions.append(asyncio.run(module.reproduce(Sources(given.folders, progress))))
        if not given.as_json:
            click.echo("\n".join(reproductions[-1].lines()))
            click.echo()
    matches = not any(reproduction.mismatches for reproduction in reproductions)
    if given.as_json:
        found = [reproduction.as_object() for reproduction in reproductions]
        emit_json({"matches": matches, "reproductions": found})
    return ExitCode.DONE if matches else ExitCode.NEGATIVE

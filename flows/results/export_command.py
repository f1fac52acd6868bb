"""`crosscheck export`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import click

from flows.cli import options
from flows.cli.output import emit


@dataclass(frozen=True, kw_only=True)
class ExportOptions(options.Output):
    """Options of `crosscheck export`."""

    target: Path = options.argument(metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path))
    overwrite: bool = options.option(
        "--overwrite", is_flag=True, help="Replace the files of an earlier export."
    )


@click.command(
    "export",
    epilog="\b\nExamples:\n  crosscheck export results\n"
    "  python -c \"import pandas; print(pandas.read_parquet('results/runs.parquet'))\"\n"
    "\b\nExit codes: 0 done; 2 bad input.",
)
@options.record(ExportOptions)
def command(given: ExportOptions) -> None:
    """Write what all runs found to FOLDER: one Parquet file for each view of `crosscheck query`."""
    from tasks.tracking.warehouse.views import export

    rows = export(given.folder.warehouse, given.target.expanduser(), overwrite=given.overwrite)

    def show(stream: TextIO) -> None:
        for name, count in rows.items():
            click.echo(f"{given.target / f'{name}.parquet'}: {count:,} rows", stream)

    emit({"folder": str(given.target), "rows": rows}, show, as_json=given.as_json, text_too=False)

"""`crosscheck export`."""

import json
from pathlib import Path

import click

from flows.cli import options


@click.command(
    "export",
    epilog="\b\nExamples:\n  crosscheck export results\n"
    "  python -c \"import pandas; print(pandas.read_parquet('results/runs.parquet'))\"\n"
    "\b\nExit codes: 0 done; 2 bad input.",
)
@click.argument("folder", metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path))
@click.option("--overwrite", is_flag=True, help="Replace the files of an earlier export.")
@options.home
@options.as_json
def command(folder: Path, overwrite: bool, home: str | None, as_json: bool) -> None:
    """Write what all runs found to FOLDER: one Parquet file for each view of `crosscheck query`."""
    from tasks.settings.home import find_home
    from tasks.tracking.warehouse.views import export

    rows = export(find_home(home).warehouse, folder.expanduser(), overwrite=overwrite)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "rows": rows}))
        return
    for name, count in rows.items():
        click.echo(f"{folder / f'{name}.parquet'}: {count:,} rows")

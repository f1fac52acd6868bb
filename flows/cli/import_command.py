"""`crosscheck import`."""

from dataclasses import dataclass

import click

from flows.cli import options


@dataclass(frozen=True, kw_only=True)
class ImportOptions(options.Data):
    """Options of `crosscheck import rsl-sql`."""

    output: str = options.option("--output", required=True, metavar="FILE", help="File for the recording.")


@click.group(
    "import",
    epilog="\b\nExample:\n"
    "  crosscheck import rsl-sql --data ~/text2sql --output rsl-sql.jsonl\n"
    "  crosscheck evaluate --benchmark bird-dev --data ~/text2sql --backbone replay \\\n"
    "      --set backbone.recording=rsl-sql.jsonl",
)
def command() -> None:
    """Convert released outputs of other systems into a recording, for `--backbone replay`."""


@command.command("rsl-sql")
@options.record(ImportOptions)
def rsl_sql(given: ImportOptions) -> None:
    """Import the RSL-SQL authors' GPT-4o outputs for BIRD dev.

    Needs bird/ and recordings/rsl-sql-gpt-4o-bird-dev/ in the data folder. A self-correction is recorded only
    if the authors' final SQL differs from the selected one. If Crosscheck's pipeline needs another self-correction,
    that question fails, because no reply is recorded for it.
    """
    from pathlib import Path

    from tasks.backbone.recordings.file import check_writable, write_recording
    from tasks.benchmarks.layouts.base import layout_of
    from tasks.benchmarks.predictions.rsl_sql_release import FOLDER, read_release, recorded_replies
    from tasks.settings.home import find_conf, find_data
    from tasks.settings.load import load_benchmark_settings

    path, folder = Path(given.output).expanduser().absolute(), find_data(given.data)
    check_writable(path, "--output")
    release = read_release(folder / FOLDER)
    settings = load_benchmark_settings(find_conf(), "bird-dev")
    questions = (
        layout_of(settings.layout).read_split(folder / settings.folder / settings.question_files[0]).questions
    )
    count = write_recording(path, recorded_replies(release, questions))
    click.echo(f"{count:,} replies to {len(release.forward_link):,} questions are recorded in {path}.")

"""`crosscheck import`."""

from dataclasses import dataclass

import click

from flows.cli import options


@dataclass(frozen=True, kw_only=True)
class ImportOptions(options.Data):
    """Options of `crosscheck import rsl-sql`."""

    output: str = options.option("--output", required=True, metavar="FILE", help="The recording to write.")


@click.group(
    "import",
    epilog="\b\nExample:\n"
    "  crosscheck import rsl-sql --data ~/text2sql --output rsl-sql.jsonl\n"
    "  crosscheck evaluate --benchmark bird-dev --data ~/text2sql --backbone replay \\\n"
    "      --set backbone.recording=rsl-sql.jsonl",
)
def command() -> None:
    """Turn outputs that others released into a recording, to be replayed through Crosscheck's own pipelines."""


@command.command("rsl-sql")
@options.record(ImportOptions)
def rsl_sql(given: ImportOptions) -> None:
    """Import the RSL-SQL authors' GPT-4o outputs for BIRD dev.

    Needs bird/ and recordings/rsl-sql-gpt-4o-bird-dev/ in the data folder. A self-correction is recorded only where
    the authors' last SQL differs from the one they selected: where Crosscheck's executor wants another one, the
    replay fails on that question rather than make up a reply.
    """
    from pathlib import Path

    from tasks.backbone.recordings.file import check_writable, write_recording
    from tasks.benchmarks.bird import BIRD
    from tasks.benchmarks.predictions.rsl_sql_release import FOLDER, read_release, recorded_replies
    from tasks.benchmarks.questions import read_split
    from tasks.settings.home import find_conf, find_data
    from tasks.settings.load import load_benchmark_settings

    path, folder = Path(given.output).expanduser().absolute(), find_data(given.data)
    check_writable(path, "--output")
    release = read_release(folder / FOLDER)
    settings = load_benchmark_settings(find_conf(), "bird-dev")
    questions = read_split(folder / settings.folder / settings.questions, BIRD).questions
    count = write_recording(path, recorded_replies(release, questions))
    click.echo(f"{count:,} replies to {len(release.forward_link):,} questions are recorded in {path}.")

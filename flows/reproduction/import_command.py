"""`crosscheck import`."""

from dataclasses import dataclass
from pathlib import Path

import click

from flows.cli import options
from tasks.core.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class ImportOptions(options.Data, options.Json):
    """Options of `crosscheck import rsl-sql`."""

    output: Path = options.path(
        "--output",
        required=True,
        metavar="FILE",
        help="File for the recording; it must not exist yet.",
    )
    outputs: Path | None = options.path(
        "--outputs", metavar="FOLDER", help="Folder of the outputs. [default: the authors', below --data]"
    )
    model: str | None = options.option(
        "--model", metavar="NAME", help="Model that wrote them; needed with --outputs. [default: gpt-4o]"
    )


@dataclass(frozen=True, kw_only=True)
class BundleOptions(options.BenchmarkOverrides, options.Files):
    """Options of `crosscheck import --bundle`."""

    bundle: Path | None = options.path(
        "--bundle",
        metavar="FILE",
        help="Bundle of `crosscheck export RUN --bundle`, to be scored again here.",
    )
    sha256: str | None = options.option(
        "--sha256", metavar="DIGEST", help="Import the bundle only if its manifest has this sha256."
    )
    benchmark: str | None = options.option(
        "--benchmark",
        metavar="NAME",
        help="Benchmark here: a name, or a YAML file. [default: that of the bundle]",
    )
    replies: Path | None = options.path(
        "--replies", metavar="FILE", help="Also write the bundle's replies to FILE, for `--backbone replay`."
    )


@click.group(
    "import",
    invoke_without_command=True,
    epilog="\b\nExamples:\n"
    "  crosscheck import --bundle run.zip --data ~/text2sql\n"
    "  crosscheck import rsl-sql --data ~/text2sql --output rsl-sql.jsonl\n"
    "  crosscheck evaluate --benchmark bird-dev --data ~/text2sql --backbone replay \\\n"
    "      --set backbone.recording=rsl-sql.jsonl\n"
    "\nExit codes: 0 done, and every figure of the bundle is equal here; 1 some figures of the bundle differ;\n"
    "2 bad input or configuration.",
)
@options.record(BundleOptions)
def command(given: BundleOptions) -> int | None:
    """Import a run from elsewhere, or outputs of another system.

    With --bundle: score the answers of a bundle again, without a model, keep them as a run, and list what differs:
    figures, verdicts, databases, answer keys, settings, versions. The benchmark's files are read from --data. A bundle
    names no file, server or code that is used here.
    """
    context = click.get_current_context()
    if context.invoked_subcommand is not None:
        if given.bundle:
            raise click.UsageError(f"--bundle cannot be combined with {context.invoked_subcommand}.")
        return None
    if given.bundle is None:
        click.echo(context.get_help())
        return None
    from flows.report.exit_codes import ExitCode
    from flows.reproduction.bundle import ImportChoice, import_bundle
    from flows.reproduction.bundle_display import as_object, imported_document
    from tasks.documents.terminal import print_document

    choice = ImportChoice(given.bundle, given.sha256, given.benchmark, given.overrides, given.replies)
    with given.progress() as progress:
        found = import_bundle(choice, given.folders, progress)
    given.emit(as_object(found), lambda stream: print_document(imported_document(found), stream))
    return ExitCode.NEGATIVE if found.figures.differing else ExitCode.DONE


@command.command(
    "rsl-sql",
    epilog="\b\nExample:\n"
    "  crosscheck import rsl-sql --outputs deepseek/ --model deepseek-chat --output deepseek.jsonl\n"
    "\nThe folder has forward_link.json, augmentation.json and sql1.txt to sql4.txt, an item or line per question,\n"
    "or the same under their names in RSL-SQL's repository, as main_result/BIRD_DEV/deepseek has them.\n"
    "\nExit codes: 0 written; 2 bad input or configuration.",
)
@options.record(ImportOptions)
def rsl_sql(given: ImportOptions) -> None:
    """Make a recording from outputs of RSL-SQL's code.

    They are outputs of its released code for BIRD dev, by default those of its authors, with GPT-4o. Needs bird/ and,
    unless --outputs is given, recordings/rsl-sql-gpt-4o-bird-dev/ in the data folder. A self-correction is recorded
    only if the final SQL differs from the selected one. If Crosscheck's pipeline needs another self-correction, that
    question fails, because no reply is recorded for it.
    """
    from tasks.backbone.recordings.file import write_recording
    from tasks.benchmarks.layouts.base import layout_of
    from tasks.benchmarks.predictions.rsl_sql_release import FOLDER, MODEL, read_release, recorded_replies
    from tasks.core.files import check_writable
    from tasks.settings.home import find_conf, find_data
    from tasks.settings.load import load_benchmark_settings

    if (given.outputs is None) is not (given.model is None):
        raise ConfigurationError(
            "--outputs and --model belong together: whose outputs they are is in every reply."
        )
    path, folder = given.output.absolute(), find_data(given.data)
    check_writable(path, "--output")
    if path.exists():
        raise ConfigurationError(
            f"--output {path}: the file is there already. Name another one, or remove it."
        )
    release = read_release(given.outputs or folder / FOLDER)
    settings = load_benchmark_settings(find_conf(), "bird-dev")
    questions = (
        layout_of(settings.layout).read_split(folder / settings.folder / settings.question_files[0]).questions
    )
    count = write_recording(path, recorded_replies(release, questions, given.model or MODEL))
    recorded = len(release.forward_link)
    given.emit(
        {"file": str(path), "replies": count, "questions": recorded},
        lambda stream: click.echo(
            f"{count:,} replies to {recorded:,} questions are recorded in {path}.", stream
        ),
    )

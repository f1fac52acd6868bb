"""`crosscheck golds`: golds that a person should look at."""

from dataclasses import dataclass
from pathlib import Path

import click

from flows.cli import options


@dataclass(frozen=True, kw_only=True)
class SuggestOptions(options.Page, options.Files):
    """Options of `crosscheck golds suggest`."""

    runs: tuple[str, ...] = options.argument(metavar="RUN RUN...", nargs=-1, required=True)
    agree: int | None = options.option(
        "--agree",
        type=click.IntRange(min=2),
        metavar="K",
        help="At least K different backbones have to agree. [default: all of them]",
    )
    draft: Path | None = options.option(
        "--draft",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Also write a file of corrections in which every entry is undecided.",
    )
    limit: int = options.number("--limit", default=20, help="Print at most N questions.")
    rows: int = options.number("--rows", default=5, help="Rows of each result, on the page and with --json.")


@dataclass(frozen=True, kw_only=True)
class DiffOptions(options.Benchmark, options.BenchmarkOverrides, options.Page, options.Files):
    """Options of `crosscheck golds diff`."""

    a: str = options.argument(metavar="A")
    b: str = options.argument(metavar="B")
    limit: int = options.number("--limit", default=20, help="Print at most N questions.")
    rows: int = options.number("--rows", default=5, help="Rows of each result, on the page and with --json.")


@click.group(
    "golds",
    epilog="\b\nExamples:\n"
    "  crosscheck golds diff official arcwise --benchmark bird-mini-dev --html diff.html\n"
    "  crosscheck golds suggest latest~2 latest~1 latest --html golds.html\n"
    "  crosscheck verify-gold --benchmark bird-dev --key corrections.json\n"
    '  crosscheck evaluate --benchmark bird-dev --set "benchmark.answer_keys=corrections.json"\n',
)
def command() -> None:
    """Find golds that may be wrong, and compare answer keys."""


@command.command(
    "suggest",
    epilog="\b\nExamples:\n"
    "  crosscheck golds suggest latest~2 latest~1 latest --html golds.html\n"
    "  crosscheck golds suggest latest~2 latest~1 latest --agree 2 --draft corrections.json\n"
    "\b\nRUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.\n"
    "Predictions of other systems become runs with `crosscheck score --name NAME`.\n"
    "\b\nExit codes: 0 compared, whether or not questions were found; 2 bad input.",
)
@options.record(SuggestOptions)
def suggest(given: SuggestOptions) -> None:
    """List questions whose gold may be wrong.

    These are questions on which RUNs of different backbones agree with each other but not with the gold. No score
    changes: you decide, and write the decision into a file of corrections (benchmark.answer_keys).
    """
    from flows.gold.suggestions import check_runs
    from flows.gold.suggestions import suggest as find
    from flows.gold.suggestions_output import as_object, suggestions_document, write_draft
    from tasks.documents.html import html
    from tasks.documents.terminal import print_document

    runs = list({each.run.run_id: each for each in given.read_runs(*given.runs)}.values())
    least = check_runs(runs, given.agree)
    with given.progress() as progress:
        found = find(runs, least, given.folders, progress, rows=given.rows)
    document = suggestions_document(found, given.limit)
    given.write_page(lambda: html(document))
    if given.draft is not None:
        write_draft(found, given.draft)
    given.emit(as_object(found), lambda stream: print_document(document, stream))
    for file in filter(None, (given.html, given.draft)):
        click.echo(f"Written: {file}", err=given.as_json)


@command.command(
    "diff",
    epilog="\b\nExamples:\n"
    "  crosscheck golds diff official arcwise --benchmark bird-mini-dev\n"
    "  crosscheck golds diff arcwise corrections.json --benchmark bird-dev --html diff.html\n"
    "\b\nA and B are keys: official, the name of a benchmark whose golds are the key, or a file of corrections or of\n"
    "id and SQL, as in the setting benchmark.answer_keys.\n"
    "\b\nExit codes: 0 compared, whether or not the keys differ; 2 bad input.",
)
@options.record(DiffOptions)
def diff(given: DiffOptions) -> None:
    """List the questions on which two answer keys differ.

    With --html or --json, each has the results of both.
    """
    from flows.gold.key_diff import diff_keys
    from flows.gold.key_diff_display import as_object, diff_document
    from tasks.documents.html import html
    from tasks.documents.terminal import print_document
    from tasks.settings.assemble import benchmark_settings
    from tasks.settings.benchmark import OFFICIAL, key_in_folder

    settings = benchmark_settings(given.benchmark, given.overrides)
    a, b = (key if key == OFFICIAL else key_in_folder(key, Path.cwd()) for key in (given.a, given.b))
    with given.progress() as progress:
        found = diff_keys(settings, (a, b), given.folders, progress, rows=given.rows)
    document = diff_document(found, given.limit)
    given.write_page(lambda: html(document))
    given.emit(as_object(found), lambda stream: print_document(document, stream))
    given.name_page()

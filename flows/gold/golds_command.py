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
    queue: str | None = options.option(
        "--queue",
        metavar="NAME",
        help="Also put the questions into this review queue of MLflow (3.14 or later), where people judge them.",
    )
    limit: int = options.number("--limit", default=20, help="Print at most N questions.")
    rows: int = options.number("--rows", default=5, help="Rows of each result, on the page and with --json.")


@dataclass(frozen=True, kw_only=True)
class ImportOptions(options.Benchmark, options.BenchmarkOverrides, options.Files):
    """Options of `crosscheck golds import`."""

    files: tuple[Path, ...] = options.argument(
        metavar="FILE...", nargs=-1, type=click.Path(dir_okay=False, path_type=Path)
    )
    output: Path = options.option(
        "--output",
        metavar="FILE",
        required=True,
        type=click.Path(dir_okay=False, path_type=Path),
        help="The answer key to write, a JSON file.",
    )
    queue: str | None = options.option(
        "--queue", metavar="NAME", help="Read the verdicts of this review queue of MLflow."
    )
    decides: str = options.option(
        "--decides",
        default="majority",
        metavar="WHO",
        help="majority, unanimous, or the name of the reviewer whose verdict counts. Without a decision, an entry is "
        "undecided.",
    )
    runs: tuple[str, ...] = options.option(
        "--run",
        multiple=True,
        metavar="RUN",
        help="Show the score of this run before and after. May be given several times.",
    )


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
    "  crosscheck golds import verdicts.csv --benchmark bird-dev --output reviewed.json --run latest\n"
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
    "\nRUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.\n"
    "Predictions of other systems become runs with `crosscheck score --name NAME`.\n"
    "\nExit codes: 0 compared, whether or not questions were found; 2 bad input.",
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
    if given.queue is not None:
        from flows.gold.review import fill_queue
        from flows.gold.suggestions_output import review_items

        with given.progress() as progress:
            benchmark = runs[0].run.benchmark
            said = fill_queue(given.folders, benchmark, given.queue, review_items(found), progress.step)
        click.echo(said, err=given.as_json)
    for file in filter(None, (given.html, given.draft)):
        click.echo(f"Written: {file}", err=given.as_json)


@command.command(
    "diff",
    epilog="\b\nExamples:\n"
    "  crosscheck golds diff official arcwise --benchmark bird-mini-dev\n"
    "  crosscheck golds diff arcwise corrections.json --benchmark bird-dev --html diff.html\n"
    "\nA and B are keys: official, the name of a benchmark whose golds are the key, or a file of corrections or of\n"
    "id and SQL, as in the setting benchmark.answer_keys.\n"
    "\nExit codes: 0 compared, whether or not the keys differ; 2 bad input.",
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


@command.command(
    "import",
    epilog="\b\nExamples:\n"
    "  crosscheck golds import ann.csv bob.csv --benchmark bird-dev --output reviewed.json --run latest\n"
    "  crosscheck golds import --queue golds --benchmark bird-dev --output reviewed.json --decides Ann\n"
    "\nFILE is CSV, JSON or JSON lines with question_id, reviewer, verdict (keep, replace, add, withdraw), reason,\n"
    "date (2026-11-24) and sql, which replace and add need.\n"
    "\nExit codes: 0 written; 2 bad input, nothing written.",
)
@options.record(ImportOptions)
def import_(given: ImportOptions) -> None:
    """Make an answer key from people's verdicts.

    The key has the names, dates and reasons. The reviewers' agreement is printed: Cohen's kappa of two, Fleiss' kappa
    of more.
    """
    from flows.gold.golds_import import as_object, import_document, import_verdicts
    from tasks.documents.terminal import print_document
    from tasks.settings.assemble import benchmark_settings

    settings = benchmark_settings(given.benchmark, given.overrides)
    runs = given.read_runs(*given.runs)
    with given.progress() as progress:
        result = import_verdicts(
            settings, given.files, given.queue, given.output, given.decides, runs, given.folders, progress
        )
    given.emit(as_object(result), lambda stream: print_document(import_document(result), stream))

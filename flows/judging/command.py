"""`crosscheck judge`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from flows.cli import options
from flows.report.exit_codes import ExitCode

if TYPE_CHECKING:
    from flows.judging.judging import JudgeSettings


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(options.Questions, options.Files):
    """Options of `crosscheck judge`."""

    run: str | None = options.argument(metavar="[RUN]", required=False)
    backbone: str = options.option(
        "--backbone",
        required=True,
        metavar="NAME",
        help="Model that judges: a name from `crosscheck list backbones`, or a YAML file.",
    )
    everything: bool = options.flag(
        "--all", "Also judge right answers, which shows how far the model can be trusted."
    )
    measure: str | None = options.option(
        "--measure",
        type=click.Choice(["nl2sql-bugs"]),
        help="Judge answers that people labelled, in place of those of a RUN, and measure how often the opinion equals "
        "the label.",
    )
    queue: str | None = options.option(
        "--queue",
        metavar="NAME",
        help="Also put the answers that are wrong by EX and right in its opinion into this review queue of MLflow.",
    )
    budget: float | None = options.option(
        "--budget",
        type=click.FloatRange(min=0),
        metavar="USD",
        help="Stop when the calls have cost this amount.",
    )
    overrides: tuple[str, ...] = options.set_option("Change one setting of the model: backbone.*.", last=True)


@click.command(
    "judge",
    cls=options.GroupedCommand,
    epilog="\b\nExamples:\n"
    "  crosscheck judge latest --backbone openai\n"
    "  crosscheck judge 20261121-020000-3f9a1c --backbone openai --all --limit 50 --budget 0.5\n"
    "  crosscheck judge latest --backbone openai --queue golds\n"
    "  crosscheck judge --measure nl2sql-bugs --backbone openai --data ~/text2sql --budget 0.5\n"
    "\nRUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.\n"
    "Interrupted or failed? Run the same command again to continue; no reply is paid for twice.\n"
    "\nExit codes: 0 judged; 2 bad input; 3 some answers have no opinion: the same command repeats failed\n"
    "calls, but not calls whose reply could not be read; 130 interrupted.",
)
@options.record(JudgeOptions)
def command(given: JudgeOptions) -> int:
    """Ask a model whether the wrong answers of a RUN are really wrong, given both SQLs and both results.

    An opinion is a column of its own beside the verdict, with its agreement with EX and what it cost: no score and no
    ranking depends on it. The model judges after all questions are answered, so no stage sees its opinion.

    --measure nl2sql-bugs measures the judge: accuracy, precision and recall of right and wrong answers, and recall by
    kind of error. Every display of its opinions then names its accuracy.
    """
    from flows.judging.judging import JudgeSettings, judging_backbone
    from tasks.backbone.pricing import Budget

    if (given.run is None) is (given.measure is None):
        raise click.UsageError("Name a RUN, or measure the judge with --measure nl2sql-bugs.")
    if given.measure and (given.everything or given.queue):
        raise click.UsageError("--all and --queue are about a RUN, and cannot be combined with --measure.")
    backbone = judging_backbone(given.backbone, given.overrides, budget=given.budget)
    budget = None if given.budget is None else Budget(given.budget)
    settings = JudgeSettings(backbone, given.folders, budget)
    return _measure(given, settings) if given.run is None else _judge(given, given.run, settings)


def _judge(given: JudgeOptions, name: str, settings: "JudgeSettings") -> int:
    from flows.gold.review import fill_queue
    from flows.judging.display import judged_document
    from flows.judging.judged import keep, review_items
    from flows.judging.judging import answers_of, judge_run
    from flows.runtime.control import Control
    from tasks.documents.terminal import print_document

    (stored,) = given.read_runs(name)
    rows = answers_of(stored, limit=given.limit, ids=given.questions, everything=given.everything)
    queued = ""
    with given.progress() as progress:
        judged = judge_run(stored, rows, settings, Control(progress))
        problem = keep(judged, given.folder)
        if given.queue is not None:
            items = review_items(judged)
            queued = fill_queue(given.folders, stored.run.benchmark, given.queue, items, progress.step)

    given.emit(
        judged.as_object() | {"mlflow": problem or "logged"},
        lambda stream: print_document(judged_document(judged, problem), stream),
    )
    if queued:
        click.echo(queued, err=given.as_json)
    return ExitCode.TRY_AGAIN if judged.failures else ExitCode.DONE


def _measure(given: JudgeOptions, settings: "JudgeSettings") -> int:
    from flows.judging.measured_display import measured_document
    from flows.judging.measuring import measurable, measure
    from flows.runtime.control import Control
    from tasks.documents.terminal import print_document

    with given.progress() as progress:
        control = Control(progress)
        found = measurable(settings, limit=given.limit, ids=given.questions, control=control)
        measured = measure(found, settings, control)
    given.emit(
        measured.as_object() | {"kept": measured.kept, "without_opinion": measured.opinions.failures},
        lambda stream: print_document(measured_document(measured), stream),
    )
    return ExitCode.TRY_AGAIN if measured.opinions.failures else ExitCode.DONE

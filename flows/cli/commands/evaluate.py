"""`crosscheck evaluate`."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from flows.cli import options
from tasks.core.errors import ConfigurationError, ExitCode

if TYPE_CHECKING:
    from flows.runtime.control import Control, Progress
    from tasks.settings.evaluation import EvaluationSettings

MAX_REPEATS = 100


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(options.Evaluation, options.Pipeline, options.Labels, options.Details):
    """Options of `crosscheck evaluate`."""

    record: str | None = options.option(
        "--record",
        metavar="FILE",
        help="Write all replies of the model to FILE at the end of the run, for `--backbone replay`. An "
        "existing file is replaced only by the evaluation that wrote it.",
    )
    shards: int = options.chosen("shards")
    open: bool = options.flag(
        "--open", "Write the run as a page, as `crosscheck show` does, and open it in a browser."
    )
    again: bool = options.flag(
        "--again",
        "Evaluate even if a finished run has the same settings, questions, golds, databases and code.",
    )
    repeats: int | None = options.option(
        "--repeats",
        type=click.IntRange(2, MAX_REPEATS),
        metavar="N",
        help="Then repeat the run N times with new replies, and measure how much identical runs differ.",
    )
    budget: float | None = options.option(
        "--budget",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="With --repeats: stop when the calls of the repeats have cost this amount.",
    )
    genai_evaluation: bool = options.flag(
        "--genai-evaluation",
        "Log a trace with a verdict for every question, and list the run among MLflow's evaluation runs.",
    )


@click.command(
    "evaluate",
    cls=options.GroupedCommand,
    epilog="\b\nExamples:\n"
    "  crosscheck evaluate\n"
    "      the demo benchmark with the offline backbone: no key, no network\n"
    "  crosscheck evaluate --backbone openai --pipeline rsl-sql\n"
    "      the same with a real model (needs OPENAI_API_KEY)\n"
    "  crosscheck evaluate --benchmark bird-dev --data ~/text2sql --questions 717-845\n"
    "  crosscheck evaluate --set pipeline.augmentation.keywords=false\n"
    "      an ablation\n"
    "  crosscheck evaluate --record run.jsonl\n"
    "  crosscheck evaluate --backbone replay --set backbone.recording=run.jsonl\n"
    "      record the replies of the model, then evaluate again with these replies instead of the model\n"
    "  crosscheck evaluate --benchmark bird-dev --backbone openai --shards 8\n"
    "      on the workers of the Prefect server at PREFECT_API_URL\n"
    "  crosscheck evaluate --open\n"
    "      ends with the run's page in a browser: every question with prompts, replies and results\n"
    "  crosscheck evaluate --backbone openai --repeats 5 --budget 20\n"
    "      also flip rate, mean and deviation of EX, pass^k, and the smallest loss that a comparison can prove\n"
    "  crosscheck evaluate --json > result.json\n"
    "\nInterrupted or failed? Run the same command again to continue; answered questions are not repeated or paid\n"
    "for again.\n"
    "Made before? If nothing has changed that could change the result, the finished run is shown at once; --again\n"
    "makes a new one.\n"
    "\nExit codes: 0 finished; 2 bad input or configuration; 3 some questions failed and can be retried,\n"
    "or the endpoint cannot be reached and there is no result: run the same command again to continue;\n"
    "130 interrupted, all answers are kept.",
)
@options.record(EvaluateOptions)
def command(arguments: EvaluateOptions) -> int:
    """Evaluate a pipeline on a benchmark.

    Runs the pipeline's stages for every question, scores each stage, and logs the run to MLflow.
    """
    from flows.cli.progress import open_asking

    if arguments.budget is not None and arguments.repeats is None:
        raise ConfigurationError("--budget limits what repeats cost: add --repeats N.")
    evaluated = None
    with open_asking() as progress:
        pipeline, backbone, benchmark = map(
            options.end_of, (arguments.pipeline, arguments.backbone, arguments.benchmark)
        )
        progress.step(f"Evaluating {pipeline} with {backbone} on {benchmark}")
        from flows.evaluate.run import find_known, run_evaluation

        settings, control = _chosen(arguments, progress)
        if arguments.budget is not None:
            from flows.evaluate.preparation import check_budget

            check_budget([settings], arguments.budget)
        known, preparation = (None, None) if arguments.again else find_known(settings, control)
        if known is None:
            evaluated = run_evaluation(settings, control, preparation=preparation)

    from flows.runtime.summary import print_repeated, print_summary
    from tasks.results.run_record import json_of

    def show(stream: TextIO) -> None:
        if evaluated:
            print_summary(
                evaluated, arguments.folder, stream, details=arguments.details, prefect=control.prefect
            )
        elif known:
            print_repeated(known, arguments.folder, stream, details=arguments.details)

    record = evaluated or known
    assert record is not None
    code = evaluated.exit_code if evaluated else ExitCode.DONE
    repeats = None if code else arguments.repeats
    if repeats and arguments.as_json:  # the object is that of the repeats
        show(sys.stderr)
    else:
        arguments.emit(json_of(record), show, text_too=True)
    if arguments.open:
        _open_page(record.run_id, arguments)
    return _repeat(record.run_id, repeats, arguments) if repeats else code


def _repeat(run_id: str, repeats: int, arguments: EvaluateOptions) -> int:
    """Make the missing repeats of a run, and print what they measure."""
    from flows.cli.progress import open_control
    from flows.matrix.repeats import MeasuredDocument, make_repeats, plan_noise
    from flows.pages.matrix import repeats_estimate, repeats_problems
    from flows.runtime.output import write_page
    from tasks.documents.html import html
    from tasks.documents.terminal import print_document
    from tasks.pages.repeats import noise_document

    plan = plan_noise(run_id, repeats, arguments.folders, budget_usd=arguments.budget)
    print_document(repeats_estimate(plan, arguments.budget), sys.stderr if arguments.as_json else sys.stdout)

    measured = make_repeats(plan, open_control, labels=arguments.labels, budget_usd=arguments.budget)
    page = arguments.folder.reports / f"{run_id}-repeats.html"

    def show(stream: TextIO) -> None:
        if measured.noise:
            print_document(noise_document(measured.noise), stream)
            print(f"With all unstable questions: {page}", file=stream)
        if problems := repeats_problems(measured):
            print_document(problems, stream)

    if measured.noise:
        write_page(html(noise_document(measured.noise, None)), page, make_folder=True)
    arguments.emit(MeasuredDocument.model_validate(measured), show, text_too=True)
    return measured.exit_code


def _chosen(arguments: EvaluateOptions, progress: "Progress") -> "tuple[EvaluationSettings, Control]":
    """Return the settings of the options, and the control of the run."""
    from flows.runtime.control import Control
    from tasks.backbone.endpoint.retry_policy import longest_call
    from tasks.backbone.kind import kind_of

    traced = ("tracking.genai_evaluation=true",) if arguments.genai_evaluation else ()
    settings = arguments.settings(
        arguments.pipeline, *traced, record=arguments.record, shards=arguments.shards
    )
    control = Control(progress, tags=arguments.labels)
    if arguments.details and kind_of(settings.backbone).paid:
        progress.note(longest_call(settings.backbone))
    return settings, control


def _open_page(run_id: str, arguments: EvaluateOptions) -> None:
    """Write the page of a run and open it in a browser."""
    from flows.pages.run_page import write_report

    with arguments.progress() as progress:
        written = write_report(run_id, arguments.folders, progress)
    click.echo(f"The page is {written.path}.", err=arguments.as_json)
    click.launch(written.path.as_uri())

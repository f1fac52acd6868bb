"""`crosscheck evaluate`."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

from flows.cli import options
from flows.report.exit_codes import ExitCode

if TYPE_CHECKING:
    from flows.runtime.control import Control, Progress
    from tasks.settings.evaluation import EvaluationSettings


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(options.Evaluation, options.Pipeline, options.Labels, options.Details):
    """Options of `crosscheck evaluate`."""

    record: str | None = options.option(
        "--record",
        metavar="FILE",
        help="Write all replies of the model to FILE at the end of the run, for `--backbone replay`. An "
        "existing file is replaced only by the evaluation that wrote it.",
    )
    shards: int = options.option(
        "--shards",
        type=click.IntRange(1, 256),
        default=1,
        metavar="N",
        help="Divide the questions among N flow runs on the workers of the work pool (needs PREFECT_API_URL).",
    )
    open: bool = options.flag(
        "--open", "Write the run as a page, as `crosscheck report` does, and open it in a browser."
    )
    again: bool = options.flag(
        "--again",
        "Evaluate even if a finished run has the same settings, questions, golds, databases and code.",
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
def command(given: EvaluateOptions) -> int:
    """Evaluate a pipeline on a benchmark.

    Runs the pipeline's stages for every question, scores each stage, and logs the run to MLflow.
    """
    from flows.cli.progress import open_progress

    evaluated = None
    with open_progress(sys.stderr) as progress:
        pipeline, backbone, benchmark = map(options.end_of, (given.pipeline, given.backbone, given.benchmark))
        progress.step(f"Evaluating {pipeline} with {backbone} on {benchmark}")
        from flows.evaluation.run import find_known, run_evaluation

        settings, control = _chosen(given, progress)
        known, preparation = (None, None) if given.again else find_known(settings, control)
        if known is None:
            evaluated = run_evaluation(settings, control, preparation=preparation)

    from flows.report.summary import print_repeated, print_summary
    from tasks.tracking.run_record import json_of

    def show(stream: TextIO) -> None:
        if evaluated:
            print_summary(evaluated, given.folder, stream, details=given.details)
        elif known:
            print_repeated(known, given.folder, stream, details=given.details)

    record = evaluated.record if evaluated else known
    assert record is not None
    given.emit(json_of(record), show, text_too=True)
    if given.open:
        _open_page(record.run_id, given)
    return evaluated.exit_code if evaluated else ExitCode.DONE


def _chosen(given: EvaluateOptions, progress: "Progress") -> "tuple[EvaluationSettings, Control]":
    """Return the settings of the options, and the control of the run."""
    from flows.runtime.control import Control
    from tasks.backbone.endpoint.retry_policy import longest_call
    from tasks.backbone.kinds.kind import kind_of

    traced = ("tracking.genai_evaluation=true",) if given.genai_evaluation else ()
    settings = given.settings(given.pipeline, *traced, record=given.record, shards=given.shards)
    control = Control(progress, tags=given.labels)
    if given.details and kind_of(settings.backbone).paid:
        progress.note(longest_call(settings.backbone))
    return settings, control


def _open_page(run_id: str, given: EvaluateOptions) -> None:
    """Write the page of a run and open it in a browser."""
    from flows.show.report import PageChoice, write_report

    with given.progress() as progress:
        written = write_report(run_id, given.folders, PageChoice(), progress)
    click.echo(f"The page is {written.place}.", err=given.as_json)
    click.launch(written.place.as_uri())

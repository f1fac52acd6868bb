"""`crosscheck evaluate`."""

import sys
from typing import TYPE_CHECKING, Annotated, TextIO

import click
from annotated_types import Ge, Gt, Le

from flows.cli import options
from flows.runtime.output import open_in_browser, write_page
from tasks.core.errors import ConfigurationError, ExitCode
from tasks.core.wording import end_of

if TYPE_CHECKING:
    from flows.runtime.control import Control, Progress
    from tasks.settings.evaluation import EvaluationSettings


class Evaluate(options.Evaluation, options.Pipeline, options.Labels, options.Details):
    """Evaluate a pipeline on a benchmark.

    Runs the pipeline's stages for every question, scores each stage, and logs the run to MLflow.

    Examples:
      crosscheck evaluate
          the demo benchmark with the offline backbone: no key, no network
      crosscheck evaluate --backbone openai --pipeline rsl-sql
          the same with a real model (needs OPENAI_API_KEY)
      crosscheck evaluate --benchmark bird-dev --data ~/text2sql --questions 717-845
      crosscheck evaluate --set pipeline.augmentation.keywords=false
          an ablation
      crosscheck evaluate --record run.jsonl
      crosscheck evaluate --backbone replay --set backbone.recording=run.jsonl
          record the replies of the model, then evaluate again with these replies instead of the model
      crosscheck evaluate --benchmark bird-dev --backbone openai --shards 8
          on the workers of the Prefect server at PREFECT_API_URL
      crosscheck evaluate --open
          ends with the run's page in a browser: every question with prompts, replies and results
      crosscheck evaluate --backbone openai --repeats 5 --budget 20
          also flip rate, mean and deviation of EX, pass^k, and the smallest loss that a comparison can prove
      crosscheck evaluate --json > result.json

    Interrupted or failed? Run the same command again to continue; answered questions are not repeated or paid
    for again.
    Made before? If nothing has changed that could change the result, the finished run is shown at once; --again
    makes a new one.

    Exit codes: 0 finished; 2 bad input or configuration; 3 some questions failed and can be retried,
    or the endpoint cannot be reached and there is no result: run the same command again to continue;
    130 interrupted, all answers are kept.
    """

    grouped = True
    record: Annotated[str | None, options.Metavar("FILE")] = None
    """Write all replies of the model to FILE at the end of the run, for `--backbone replay`. An existing file is
    replaced only by the evaluation that wrote it."""
    shards: int = options.like("shards")
    open: bool = False
    """Write the run as a page, as `crosscheck show` does, and open it in a browser."""
    again: bool = False
    """Evaluate even if a finished run has the same settings, questions, golds, databases and code."""
    repeats: Annotated[int | None, Ge(2), Le(100)] = None
    """Then repeat the run N times with new replies, and measure how much identical runs differ."""
    budget: Annotated[float | None, options.Metavar("USD"), Gt(0)] = None
    """With --repeats: stop when the calls of the repeats have cost this amount."""
    genai_evaluation: bool = False
    """Log a trace with a verdict for every question, and list the run among MLflow's evaluation runs."""

    def __call__(self) -> int:
        from flows.runtime.progress import open_asking

        if self.budget is not None and self.repeats is None:
            raise ConfigurationError("--budget limits what repeats cost: add --repeats N.")
        evaluated = None
        with open_asking() as progress:
            pipeline, backbone, benchmark = map(end_of, (self.pipeline, self.backbone, self.benchmark))
            progress.step(f"Evaluating {pipeline} with {backbone} on {benchmark}")
            from flows.evaluate.run import find_known, run_evaluation

            settings, control = self._settings_and_control(progress)
            if self.budget is not None:
                from flows.evaluate.preparation import check_budget

                check_budget([settings], self.budget)
            # `known` is the record of an equal run that has finished, if there is one
            known, preparation = (None, None) if self.again else find_known(settings, control)
            if known is None:
                evaluated = run_evaluation(settings, control, preparation=preparation)

        from flows.runtime.summary import print_repeated, print_summary

        def show(stream: TextIO) -> None:
            if evaluated:
                print_summary(evaluated, self.folder, stream, details=self.details, prefect=control.prefect)
            elif known:
                print_repeated(known, self.folder, stream, details=self.details)

        record = evaluated or known
        assert record is not None
        code = evaluated.exit_code if evaluated else ExitCode.DONE
        repeats = None if code else self.repeats  # a run with failures is not repeated
        if repeats and self.as_json:  # standard output gets one object, which is that of the repeats
            show(sys.stderr)
        else:
            self.emit(record, show, text_too=True)
        if self.open:
            self._open_page(record.run_id)
        return self._repeat(record.run_id, repeats) if repeats else code

    def _repeat(self, run_id: str, repeats: int) -> int:
        """Make the missing repeats of a run, and print what they measure."""
        from flows.cli.display.matrix import repeats_estimate, repeats_problems
        from flows.matrix.repeats import MeasuredDocument, make_repeats, plan_noise
        from flows.runtime.progress import open_control
        from tasks.documents.html import html
        from tasks.documents.terminal import print_document
        from tasks.pages.repeats import noise_document

        plan = plan_noise(run_id, repeats, self.folders, budget_usd=self.budget)
        print_document(repeats_estimate(plan, self.budget), sys.stderr if self.as_json else sys.stdout)

        measured = make_repeats(plan, open_control, labels=self.labels, budget_usd=self.budget)
        page = self.folder.reports / f"{run_id}-repeats.html"

        def show(stream: TextIO) -> None:
            if measured.noise:
                print_document(noise_document(measured.noise), stream)
                print(f"With all unstable questions: {page}", file=stream)
            if problems := repeats_problems(measured):
                print_document(problems, stream)

        if measured.noise:
            write_page(html(noise_document(measured.noise, first=None)), page, make_folder=True)
        self.emit(MeasuredDocument.model_validate(measured), show, text_too=True)
        return measured.exit_code

    def _settings_and_control(self, progress: "Progress") -> "tuple[EvaluationSettings, Control]":
        from flows.runtime.control import Control
        from tasks.backbone.endpoint.retry_policy import longest_call
        from tasks.backbone.kind import kind_of

        traced = ("tracking.genai_evaluation=true",) if self.genai_evaluation else ()
        settings = self.settings_of(overrides=(*self.overrides, *traced))
        control = Control(progress, tags=self.labels)
        if self.details and kind_of(settings.backbone).paid:
            progress.note(longest_call(settings.backbone))  # how long a call can take with its retries
        return settings, control

    def _open_page(self, run_id: str) -> None:
        from flows.cli.display.viewer import write_report

        with self.progress() as progress:
            report = write_report(run_id, self.folders, progress)
        click.echo(f"The page is {report.path}.", err=self.as_json)
        open_in_browser(report.path.as_uri())

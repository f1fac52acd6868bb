"""`crosscheck judge`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from flows.cli import options
from tasks.core.errors import ExitCode

if TYPE_CHECKING:
    from tasks.settings.evaluation import EvaluationSettings


@dataclass(frozen=True, kw_only=True)
class JudgeOptions(options.Questions, options.Files):
    """Options of `crosscheck judge`."""

    run: str = options.argument(metavar="RUN")
    backbone: str = options.option(
        "--backbone",
        required=True,
        metavar="NAME",
        help="Model that judges: a name from `crosscheck list backbones`, or a YAML file.",
    )
    everything: bool = options.flag(
        "--all", "Also judge right answers, which shows how far the model can be trusted."
    )
    budget: float | None = options.option(
        "--budget",
        type=click.FloatRange(min=0),
        metavar="USD",
        help="Stop when the calls have cost this amount.",
    )
    overrides: tuple[str, ...] = options.set_option("Change one setting of the model: backbone.*.", last=True)

    def settings(self) -> "EvaluationSettings":
        """Return settings with the model that judges; of the pipeline and the benchmark, nothing is used."""
        from tasks.core.errors import ConfigurationError
        from tasks.settings.assemble import evaluation_settings
        from tasks.settings.evaluation import EvaluationChoice
        from tasks.settings.home import DEFAULT_BENCHMARK

        if others := [text for text in self.overrides if not text.startswith("backbone.")]:
            raise ConfigurationError(f"--set {others[0]}: only backbone.* can be set here.")
        return evaluation_settings(
            EvaluationChoice.of_options(
                benchmark=DEFAULT_BENCHMARK,
                backbone=self.backbone,
                pipeline="zero-shot",
                overrides=self.overrides,
                data=self.data,
                home=self.home,
            )
        )


@click.command(
    "judge",
    cls=options.GroupedCommand,
    epilog="\b\nExamples:\n"
    "  crosscheck judge latest --backbone openai\n"
    "  crosscheck judge 20261121-020000-3f9a1c --backbone openai --all --limit 50 --budget 0.5\n"
    "\nRUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.\n"
    "Interrupted or failed? Run the same command again to continue; no reply is paid for twice.\n"
    "\nExit codes: 0 judged; 2 bad input; 3 some answers have no opinion; 130 interrupted.",
)
@options.record(JudgeOptions)
def command(judge_options: JudgeOptions) -> int:
    """Ask a model whether the wrong answers of a RUN are really wrong, given both SQLs and both results.

    An opinion is a column beside the verdict, with its agreement with EX and what it cost; no score depends on it.
    """
    from flows.evaluate.judging import JudgedDocument, answers_of, judge_run, judged_document
    from flows.evaluate.preparation import check_budget
    from flows.runtime.control import Control
    from tasks.backbone.kind import check_backbone
    from tasks.backbone.pricing import Budget
    from tasks.documents.terminal import print_document
    from tasks.results.run_record import json_of
    from tasks.results.warehouse.runs import Warehouse

    settings = judge_options.settings()
    check_backbone(settings.backbone)
    check_budget((settings,), judge_options.budget)
    (stored,) = judge_options.read_runs(judge_options.run)
    rows = answers_of(stored, judge_options.selection, everything=judge_options.everything)
    budget = None if judge_options.budget is None else Budget(judge_options.budget)
    with judge_options.progress() as progress:
        judged = judge_run(stored, rows, settings, Control(progress, budget=budget))
    document = json_of(JudgedDocument.model_validate(judged))
    Warehouse(judge_options.folder.warehouse).add_opinions(stored.run_id, judged.opinions, document)
    judge_options.emit(document, lambda stream: print_document(judged_document(judged), stream))
    return ExitCode.TRY_AGAIN if judged.failures else ExitCode.DONE

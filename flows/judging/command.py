"""`crosscheck judge`."""

from dataclasses import dataclass

import click

from flows.cli import options
from flows.report.exit_codes import ExitCode


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


@click.command(
    "judge",
    epilog="\b\nExamples:\n"
    "  crosscheck judge latest --backbone openai\n"
    "  crosscheck judge 20261121-020000-3f9a1c --backbone openai --all --limit 50 --budget 0.5\n"
    "\b\nRUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.\n"
    "Interrupted or failed? The same command continues; no reply is paid for twice.\n"
    "\b\nExit codes: 0 judged; 2 bad input; 3 some answers have no opinion: the same command repeats failed\n"
    "calls, but not calls whose reply could not be read; 130 interrupted.",
)
@options.record(JudgeOptions)
def command(given: JudgeOptions) -> int:
    """Ask a model whether the wrong answers of a RUN are wrong, given both SQLs and both results.

    An opinion is a column of its own beside the verdict, with its agreement with EX and what it cost: no score and no
    ranking depends on it. The model judges after all questions are answered, so no stage sees its opinion.
    """
    from flows.judging.display import judged_document
    from flows.judging.judged import keep
    from flows.judging.judging import JudgeSettings, answers_of, judge_run, judging_backbone
    from flows.runtime.control import Control
    from tasks.backbone.pricing import Budget
    from tasks.documents.terminal import print_document

    backbone = judging_backbone(given.backbone, given.overrides, budget=given.budget)
    (stored,) = given.read_runs(given.run)
    rows = answers_of(stored, limit=given.limit, ids=given.questions, everything=given.everything)
    budget = None if given.budget is None else Budget(given.budget)
    settings = JudgeSettings(backbone, given.folders, budget)
    with given.progress() as progress:
        judged = judge_run(stored, rows, settings, Control(progress))
        problem = keep(judged, given.folder)

    given.emit(
        judged.as_object() | {"mlflow": problem or "logged"},
        lambda stream: print_document(judged_document(judged, problem), stream),
    )
    return ExitCode.TRY_AGAIN if judged.failures else ExitCode.DONE

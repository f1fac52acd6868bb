"""`crosscheck judge`."""

from typing import TYPE_CHECKING, Annotated

from annotated_types import Gt

from flows.cli import options
from tasks.core.errors import ConfigurationError, ExitCode
from tasks.settings.home import DEFAULT_BENCHMARK

if TYPE_CHECKING:
    from tasks.settings.evaluation import EvaluationSettings


class Judge(options.Questions, options.Files):
    """Ask a model whether the wrong answers of a RUN are really wrong, given both SQLs and both results.

    An opinion is a column beside the verdict, with its agreement with EX and what it cost; no score depends on it.

    Examples:
      crosscheck judge latest --backbone openai
      crosscheck judge 20261121-020000-3f9a1c --backbone openai --all --limit 50 --budget 0.5

    RUN is an id, its beginning, MLflow's id, `latest` or `latest~1`; `crosscheck runs` lists the runs.
    Interrupted or failed? Run the same command again to continue; no reply is paid for twice.

    Exit codes: 0 judged; 2 bad input; 3 some answers have no opinion; 130 interrupted.
    """

    grouped = True
    run: Annotated[str, options.Argument("RUN")]
    backbone: Annotated[str, options.Metavar("NAME")]
    """Model that judges: a name from `crosscheck list backbones`, or a YAML file."""
    everything: Annotated[bool, options.More("--all")] = False
    """Also judge right answers, which shows how far the model can be trusted."""
    budget: Annotated[float | None, options.Metavar("USD"), Gt(0)] = None
    """Stop when the calls have cost this amount."""
    overrides: Annotated[tuple[str, ...], options.SETTING, options.More("--set", last=True)] = ()
    """Change one setting of the model: backbone.*. May be given several times."""

    def __call__(self) -> int:
        from flows.evaluate.judging import JudgedDocument, answers_of, judge_run, judged_document
        from flows.evaluate.preparation import check_budget
        from flows.runtime.control import Control
        from tasks.backbone.budget import Budget
        from tasks.backbone.kind import check_backbone
        from tasks.results.run_record import json_of
        from tasks.results.warehouse.runs import Warehouse

        settings = self.settings()
        check_backbone(settings.backbone)
        check_budget((settings,), self.budget)
        (stored,) = self.read_runs(self.run)
        rows = answers_of(stored, self.selection, everything=self.everything)
        budget = None if self.budget is None else Budget(self.budget)
        with self.progress() as progress:
            judged = judge_run(stored, rows, settings, Control(progress, budget=budget))
        document = json_of(JudgedDocument.model_validate(judged))
        Warehouse(self.folder.warehouse).add_opinions(stored.run_id, judged.opinions, document)
        self.emit(document, judged_document(judged))
        return ExitCode.TRY_AGAIN if judged.failures else ExitCode.DONE

    def settings(self) -> "EvaluationSettings":
        """Return settings with the model that judges; of the pipeline and the benchmark, nothing is used."""
        if others := [text for text in self.overrides if not text.startswith("backbone.")]:
            raise ConfigurationError(f"--set {others[0]}: only backbone.* can be set here.")
        return self.settings_of(benchmark=DEFAULT_BENCHMARK, pipeline="zero-shot")

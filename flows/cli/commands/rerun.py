"""`crosscheck rerun`."""

import sys
from typing import TYPE_CHECKING, Annotated, Literal

import click
from annotated_types import Gt

from flows.cli import options
from tasks.core.errors import ConfigurationError, ExitCode
from tasks.core.wording import end_of

if TYPE_CHECKING:
    from tasks.settings.evaluation import RerunSettings


class Rerun(options.Labels, options.Details, options.Files):
    """Repeat some questions of RUN and merge the answers into a new run.

    RUN is a run id or its first characters, the run's id in MLflow, or `latest`, `latest~1`, ...

    Examples:
      crosscheck rerun latest
          retries the failed questions of the last run and keeps its other answers
      crosscheck rerun 20261121-020000 --questions 717-720 --from binary_selection
      crosscheck rerun latest --from vote
          selects among the candidates of every question again
      crosscheck rerun latest --only wrong --fresh
      crosscheck rerun --night latest
          retries everything that the last nightly run left without an answer

    The settings are those of RUN. --set can change those that do not influence the score, such as
    backbone.concurrency, backbone.tier and backbone.api_key_env; the error for any other lists them.

    The result is a new run with all questions of RUN; RUN is not changed. Stored results of the same prompts
    and settings are restored, unless --fresh or --from is given. If a question that had an answer was repeated,
    the new run has the tag rerolled: its score is not comparable with that of a single run.

    Exit codes: 0 finished, or no question to repeat; 2 bad input or configuration; 3 some questions failed
    and can be retried, also those that keep their old answer, or the endpoint cannot be reached and there is no
    new run: the same command sends only what is missing, with --fresh too; 130 interrupted, all answers are kept.
    """

    grouped = True
    run: Annotated[str | None, options.Argument("[RUN]")] = None
    night: Annotated[str | None, options.Metavar("NIGHT")] = None
    """Instead of RUN: of every evaluation of this nightly run, the last run. Evaluations that have none are made. A
    name as `crosscheck nights show` lists it, `latest`, `latest~1`, ..."""
    only: Literal["errors", "wrong", "empty", "timeouts"] | None = None
    """Questions to repeat. errors: failed for a retryable reason; wrong: scored wrong; empty: the SQL returned no
    row; timeouts: the SQL exceeded the time limit. [default: errors; with --from every question that went through
    STAGE]"""
    questions: Annotated[str | None, options.Metavar("IDS")] = None
    """Repeat these questions instead of those of --only: ids and ranges, `717-845,900`, or @FILE."""
    from_stage: Annotated[str | None, options.Metavar("STAGE"), options.More("--from")] = None
    """Run this stage and the later ones again; keep the results of earlier stages."""
    fresh: bool = False
    """Request new replies from the model instead of cached ones; they are paid for again."""
    budget: Annotated[float | None, options.Metavar("USD"), Gt(0)] = None
    """Stop when the calls of this command have cost this amount."""
    overrides: Annotated[tuple[str, ...], options.SETTING, options.More("--set")] = ()
    """Change a setting that does not influence the score. May be given several times."""

    def __call__(self) -> int:
        from flows.runtime.progress import open_asking

        if (self.run is None) == (self.night is None):
            raise ConfigurationError("Name a RUN, or a nightly run with --night: one of them.")
        if self.night is not None:
            return self._rerun_night(self.night)
        evaluated = None
        with open_asking() as progress:
            progress.step(f"Looking for the questions of {end_of(self.run or '')} to repeat")
            from flows.evaluate.preparation import check_budget
            from flows.evaluate.rerun import plan_rerun, run_rerun
            from flows.runtime.control import Control
            from tasks.backbone.budget import Budget

            labels = self.labels
            plan = plan_rerun(self.settings())
            check_budget([plan.settings], self.budget)
            if plan.again:
                budget = None if self.budget is None else Budget(self.budget)
                control = Control(progress, tags=labels, budget=budget)
                evaluated = run_rerun(plan, control)

        from flows.runtime.summary import print_summary

        if evaluated is None:
            name = plan.parent.run_id
            counts = dict.fromkeys(("selected", "restored", "asked", "changed"), 0)
            facts = {"parent": name, "selection": plan.selection, **counts}
            text = f"Run {name} has no question to repeat ({plan.selection})."
            self.emit(plan.parent.model_copy(update={"rerun": facts}), text, text_too=True)
            return 0
        self.emit(
            evaluated,
            lambda stream: print_summary(
                evaluated, self.folder, stream, details=self.details, prefect=control.prefect
            ),
            text_too=True,
        )
        return evaluated.exit_code

    def settings(self) -> "RerunSettings":
        """Return the settings of the options."""
        from tasks.settings.evaluation import RerunSettings

        names = ("only", "questions", "from_stage", "fresh", "overrides")
        folders = {"data": str(self.folders.data), "home": str(self.folders.home.path)}
        chosen = {name: getattr(self, name) for name in names}
        return RerunSettings.of_options(run=self.run or "latest", **chosen, **folders)

    def _rerun_night(self, night: str) -> int:
        from flows.runtime.progress import open_control, open_progress

        with open_progress(sys.stderr) as progress:
            progress.step(f"Looking for the questions of the nightly run {end_of(night)} to repeat")
            from flows.prefect.settings import CLIENT, apply

            apply(CLIENT)  # Prefect, which the next import brings, reads how much it prints on import
            from flows.matrix.night_rerun import plan_night_rerun, rerun_night

            plan = plan_night_rerun(night, self.settings(), self.labels, self.budget)
        click.echo(plan.in_words, err=self.as_json)
        night_rerun = rerun_night(plan, open_control, self.budget)

        lines = [evaluation.in_words for evaluation in night_rerun.evaluations]
        if night_rerun.exit_code == ExitCode.TRY_AGAIN:
            lines.append("Run the same command again: it sends only what is still without an answer.")
        self.emit(night_rerun, "\n".join(lines), text_too=True)
        return night_rerun.exit_code

"""`crosscheck sweep`."""

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

from annotated_types import Gt

from flows.cli import options
from flows.runtime.output import emit_json, write_page
from tasks.core.wording import end_of
from tasks.settings.home import DEFAULT_BACKBONE, DEFAULT_PIPELINE

if TYPE_CHECKING:
    from tasks.settings.evaluation import EvaluationSettings


class Sweep(options.Benchmark, options.Questions, options.Overrides, options.Labels, options.Files):
    """Evaluate every backbone with every pipeline and every combination of settings.

    Prints an estimate of the cost first, and ends with a page in the folder reports of the working folder: scores,
    which of them differ significantly, and score against cost.

    Examples:
      crosscheck sweep --backbones offline --pipelines rsl-sql,few-shot,zero-shot
      crosscheck sweep --benchmark bird-dev --backbones openai,deepseek --pipelines rsl-sql --dry-run
      crosscheck sweep --backbones openai --pipelines few-shot --grid pipeline.demonstrations.k=0,1,3,5 --budget 2

    The combinations are evaluated one after the other; their runs in MLflow have the tag sweep. After an
    interruption or a spent budget, run the same command again to continue: no call is paid for twice. The budget
    counts the calls that this command pays for; calls in flight when it is spent are still answered.

    Exit codes: 0 every combination is evaluated; 2 bad input or configuration; 3 some questions failed or
    combinations are left (for example, the budget is spent), and the same command retries them; 130 interrupted,
    all answers are kept.
    """

    grouped = True
    backbones: Annotated[str, options.Metavar("NAMES")] = DEFAULT_BACKBONE
    """Models: names from `crosscheck list backbones` or YAML files, separated by commas."""
    pipelines: Annotated[str, options.Metavar("NAMES")] = DEFAULT_PIPELINE
    """Pipelines: names from `crosscheck list pipelines`, YAML files or path/to/file.py:function, separated by
    commas."""
    grid: Annotated[tuple[str, ...], options.Metavar("KEY=VALUES")] = ()
    """Values of one setting (backbone.* or pipeline.*), separated by commas. If given several times, all
    combinations are evaluated."""
    budget: Annotated[float | None, options.Metavar("USD"), Gt(0)] = None
    """Stop when the paid calls have cost this amount."""
    dry_run: bool = False
    """Show the combinations and their estimated costs; evaluate nothing. No key is needed."""

    def __call__(self) -> int:
        from flows.runtime.progress import open_control, open_progress

        with open_progress(sys.stderr) as progress:
            progress.step(f"Planning a sweep on {end_of(self.benchmark)}")
            from flows.cli.display.matrix import estimate_document, sweep_document
            from flows.evaluate.preparation import check_budget
            from flows.matrix.matrix import (
                CellResult,
                Sweep,
                estimate_cells,
                plan_sweep,
                read_grid,
                read_names,
                run_sweep,
            )
            from tasks.documents.html import html
            from tasks.documents.terminal import print_document
            from tasks.results.mlflow.package import address_of_page
            from tasks.results.run_record import json_of

            labels = self.labels
            backbones = read_names(self.backbones, "--backbones")
            pipelines = read_names(self.pipelines, "--pipelines")
            grid = read_grid(self.grid)
            cells = plan_sweep(self.settings, backbones, pipelines, grid, sends_requests=not self.dry_run)
            check_budget([cell.settings for cell in cells], self.budget)
            stream = sys.stderr if self.as_json else sys.stdout
            estimates = asyncio.run(estimate_cells(cells, progress))
        print_document(estimate_document(cells, estimates, self.budget), stream)
        if self.dry_run:
            if self.as_json:
                planned = Sweep("", tuple(CellResult(*pair) for pair in zip(cells, estimates, strict=True)))
                extra = {"sweep": None, "dry_run": True, "budget_usd": self.budget}
                emit_json(json_of(planned.document) | extra)
            return 0
        sweep = run_sweep(labels, self.budget, cells, estimates, open_control)
        file = self.folder.reports / f"sweep-{sweep.id}.html"
        file.parent.mkdir(exist_ok=True)
        document = sweep_document(sweep, str(file), lambda record: address_of_page(record, file))
        write_page(html(document), file)
        self.emit(json_of(sweep.document) | {"dry_run": False, "file": str(file)}, document, text_too=True)
        return sweep.exit_code

    def settings(self, backbone: str, pipeline: str, varied: tuple[str, ...]) -> "EvaluationSettings":
        """Return the settings of one cell."""
        overrides = (*self.overrides, *varied)
        return self.settings_of(backbone=backbone, pipeline=pipeline, overrides=overrides)

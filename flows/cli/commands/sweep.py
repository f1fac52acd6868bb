"""`crosscheck sweep`."""

import asyncio
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from flows.cli import options
from flows.runtime.output import emit_json
from tasks.settings.home import DEFAULT_BACKBONE, DEFAULT_PIPELINE

if TYPE_CHECKING:
    from tasks.settings.evaluation import EvaluationSettings


@dataclass(frozen=True, kw_only=True)
class SweepOptions(options.Benchmark, options.Questions, options.Overrides, options.Labels, options.Files):
    """Options of `crosscheck sweep`."""

    backbones: str = options.option(
        "--backbones",
        default=DEFAULT_BACKBONE,
        metavar="NAMES",
        help="Models: names from `crosscheck list backbones` or YAML files, separated by commas.",
    )
    pipelines: str = options.option(
        "--pipelines",
        default=DEFAULT_PIPELINE,
        metavar="NAMES",
        help="Pipelines: names from `crosscheck list pipelines`, YAML files or path/to/file.py:function, separated by "
        "commas.",
    )
    grid: tuple[str, ...] = options.option(
        "--grid",
        multiple=True,
        metavar="KEY=VALUES",
        help="Values of one setting (backbone.* or pipeline.*), separated by commas. If given several times, all "
        "combinations are evaluated.",
    )
    budget: float | None = options.option(
        "--budget",
        type=click.FloatRange(min=0, min_open=True),
        metavar="USD",
        help="Stop when the paid calls have cost this amount.",
    )
    dry_run: bool = options.flag(
        "--dry-run", "Show the combinations and their estimated costs; evaluate nothing. No key is needed."
    )

    def settings(self, backbone: str, pipeline: str, varied: tuple[str, ...]) -> "EvaluationSettings":
        """Return the settings of one cell."""
        from tasks.settings.assemble import evaluation_settings
        from tasks.settings.evaluation import EvaluationChoice

        choice = EvaluationChoice.of_options(
            benchmark=self.benchmark,
            backbone=backbone,
            pipeline=pipeline,
            overrides=(*self.overrides, *varied),
            data=self.data,
            home=self.home,
            **self.selection.model_dump(),
        )
        return evaluation_settings(choice)


@click.command(
    "sweep",
    cls=options.GroupedCommand,
    epilog="\b\nExamples:\n"
    "  crosscheck sweep --backbones offline --pipelines rsl-sql,few-shot,zero-shot\n"
    "  crosscheck sweep --benchmark bird-dev --backbones openai,deepseek --pipelines rsl-sql --dry-run\n"
    "  crosscheck sweep --backbones openai --pipelines few-shot --grid pipeline.demonstrations.k=0,1,3,5 --budget 2\n"
    "\nThe combinations are evaluated one after the other; their runs in MLflow have the tag sweep. After an\n"
    "interruption or a spent budget, run the same command again to continue: no call is paid for twice. The budget\n"
    "counts the calls that this command pays for; calls in flight when it is spent are still answered.\n"
    "\nExit codes: 0 every combination is evaluated; 2 bad input or configuration; 3 some questions failed or\n"
    "combinations are left (for example, the budget is spent), and the same command retries them; 130 interrupted,\n"
    "all answers are kept.",
)
@options.record(SweepOptions)
def command(arguments: SweepOptions) -> int:
    """Evaluate every backbone with every pipeline and every combination of settings.

    Prints an estimate of the cost first, and ends with a page in the folder reports of the working folder: scores,
    which of them differ significantly, and score against cost.
    """
    from flows.cli.progress import open_control, open_progress

    with open_progress(sys.stderr) as progress:
        progress.step(f"Planning a sweep on {options.end_of(arguments.benchmark)}")
        from flows.evaluate.preparation import check_budget
        from flows.matrix.matrix import (
            CellResult,
            Sweep,
            estimate_cells,
            names,
            plan_sweep,
            read_grid,
            run_sweep,
        )
        from flows.pages.matrix import estimate_document, sweep_document
        from flows.runtime.output import write_page
        from tasks.documents.html import html
        from tasks.documents.terminal import print_document
        from tasks.results.build_record import new_run_id
        from tasks.results.mlflow.package import address_of_page
        from tasks.results.run_record import json_of

        labels = arguments.labels
        backbones, pipelines = (
            names(arguments.backbones, "--backbones"),
            names(arguments.pipelines, "--pipelines"),
        )
        grid = read_grid(arguments.grid)
        cells = plan_sweep(
            arguments.settings, backbones, pipelines, grid, sends_requests=not arguments.dry_run
        )
        check_budget([cell.settings for cell in cells], arguments.budget)
        stream = sys.stderr if arguments.as_json else sys.stdout
        estimates = asyncio.run(estimate_cells(cells, progress))
    print_document(estimate_document(cells, estimates, arguments.budget), stream)
    if arguments.dry_run:
        if arguments.as_json:
            planned = Sweep("", tuple(CellResult(*pair) for pair in zip(cells, estimates, strict=True)))
            emit_json(
                json_of(planned.document) | {"sweep": None, "dry_run": True, "budget_usd": arguments.budget}
            )
        return 0
    sweep = run_sweep(new_run_id(), labels, arguments.budget, cells, estimates, open_control)
    file = arguments.folder.reports / f"sweep-{sweep.id}.html"
    file.parent.mkdir(exist_ok=True)
    document = sweep_document(sweep, str(file), lambda record: address_of_page(record, file))
    write_page(html(document), file)
    arguments.emit(
        json_of(sweep.document) | {"dry_run": False, "file": str(file)},
        lambda stream: print_document(document, stream),
        text_too=True,
    )
    return sweep.exit_code

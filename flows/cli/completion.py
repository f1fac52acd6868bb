"""Completion of values in the shell: names of benchmarks, backbones and pipelines, runs, files and folders."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from tasks.core.errors import CrosscheckError

if TYPE_CHECKING:
    from tasks.results.run_record import RunHeader

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def names(kind: str) -> Complete:
    """Return the completion of a name in `conf/` or of an installed package, else of a file.

    Args:
        kind: "benchmark", "backbone" or "pipeline".
    """

    def complete(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        from tasks.settings.load import known_names

        try:
            known = known_names(kind)
        except CrosscheckError:  # an error message would be taken for a value
            known = []
        items = [CompletionItem(name) for name in known if name.startswith(begun)]
        return items or [CompletionItem(begun, type="file")]

    return complete


def _runs(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the id of a run, newest first."""
    from tasks.results.warehouse.runs import Warehouse
    from tasks.settings.home import find_home

    try:
        runs = Warehouse(find_home(context.params.get("home"), make=False).warehouse, wait_s=1.0).runs()
    except CrosscheckError:
        return []
    matching = [
        ("latest", "the last finished run"),
        *((run.run_id, _described(run)) for run in runs),
    ]
    return [CompletionItem(name, help=text) for name, text in matching if name.startswith(begun)]


def _described(run: "RunHeader") -> str:
    """Describe a run for the shell: its score, if it has one, and what was evaluated."""
    from tasks.core.wording import percent_and_counts

    score = percent_and_counts(run.accuracy) if run.accuracy else run.status
    return f"{score}  {run.backbone} | {run.pipeline} on {run.benchmark}"


def _path(kind: str) -> Complete:
    return lambda _context, _parameter, begun: [CompletionItem(begun, type=kind)]


BY_METAVAR = {
    "FILE": _path("file"),
    "DATABASE": _path("file"),
    "FOLDER": _path("dir"),
    "RUN": _runs,
    "RUN...": _runs,
    "[RUN]": _runs,
}
"""Completion of values by what `--help` calls them."""
BY_FIELD = {kind: names(kind) for kind in ("benchmark", "backbone", "pipeline")}
"""Completion of values by the name of their option."""

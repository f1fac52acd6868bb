"""The end of a command that made or shows a run: its first screen or all of it, where it is, and what to do next."""

import shlex
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

import click

from flows import STARTED
from flows.runtime.control import NOWHERE, Ui
from tasks.core.errors import CrosscheckError
from tasks.documents.model import Facts, Section, Sentence
from tasks.documents.terminal import open_console, print_blocks, print_document
from tasks.pages.run import run_document
from tasks.results.run_record import RunRecord, Tracked
from tasks.settings.home import Home

if TYPE_CHECKING:
    from tasks.results.comparison import Comparison


def mlflow_ui(home: Home, tracked: Tracked) -> Ui:
    """Return where MLflow shows a run."""
    from flows.runtime.running_servers import shown_store
    from tasks.results.mlflow.store import ui_command, ui_url

    store = shown_store(home)
    command = ui_command(store) or f"MLflow's server answers at {store.shown}"
    if not tracked.experiment_id:
        return Ui(command, served=store.served)
    page, runs = ui_url(store, tracked.experiment_id, tracked.run_id), ui_url(store, tracked.experiment_id)
    return Ui(command, page, runs, store.served)


def compared_with_run_before(run: RunRecord, home: Home) -> "Comparison | None":
    """Compare the last finished run of the same questions before a run (A) with it (B).

    None if there is none, or if the warehouse does not have both, or refuses them.
    """
    from tasks.results.compare import compare
    from tasks.results.warehouse.run_names import run_before
    from tasks.results.warehouse.runs import Warehouse

    warehouse = Warehouse(home.warehouse)
    try:
        before = run_before(run.run_id, warehouse.runs())
        if not before:
            return None
        return compare(warehouse.read_run(before), run if run.rows else warehouse.read_run(run.run_id))
    except CrosscheckError:  # such as databases that changed between them: `crosscheck compare` says so
        return None


def print_summary(
    record: RunRecord, home: Home, stream: TextIO, *, details: bool = False, prefect: Ui = NOWHERE
) -> None:
    """Print a run that has just ended; `prefect` is where Prefect shows its flow run."""
    places = _places(mlflow_ui(home, record.mlflow), prefect) if details else ()
    _print(record, home, stream, details=details, places=places, seconds=command_seconds())


def print_repeated(record: RunRecord, home: Home, stream: TextIO, *, details: bool = False) -> None:
    """Print a finished run in the place of an evaluation that would be an exact repetition of it."""
    print_blocks(
        open_console(stream),
        (
            Sentence(
                f"Nothing has changed since run {record.run_id} of {record.started:%Y-%m-%d %H:%M} UTC: settings, "
                "questions, golds, databases, prompts, code and versions are the same. Its result follows; nothing was "
                "asked, scored or logged. --again makes a new run.",
                "score",
            ),
            Sentence(""),
        ),
    )
    print_run(record, home, stream, details=details)


def print_run(record: RunRecord, home: Home, stream: TextIO, *, details: bool = False) -> None:
    """Print the first screen of a run that was made before; with `details` everything."""
    logged = details and record.mlflow.run_id
    places = _places(mlflow_ui(home, record.mlflow), NOWHERE) if logged else ()
    _print(record, home, stream, details=details, places=places)


def _print(
    record: RunRecord,
    home: Home,
    stream: TextIO,
    *,
    details: bool,
    places: Sequence[tuple[str, str]],
    seconds: float | None = None,
) -> None:
    """Print a run, with how long the command took that made it; None: it was made before."""
    compared = compared_with_run_before(record, home)
    before = compared.a.run_id if compared and compared.same_system else ""
    steps = next_steps(record, before, details=not details)
    more = (Facts(tuple(places)), Section("Next", tuple(Sentence(step, "command") for step in steps)))
    document = run_document(record, compared, record.tables, more, seconds=seconds, brief=not details)
    print_document(document, stream)


def next_steps(record: RunRecord, before: str = "", *, details: bool = False) -> list[str]:
    """Return the commands to continue with, each with its reason.

    Args:
        record: the run.
        before: id of the run before it of the same backbone and pipeline, "" if there is none.
        details: whether the command that prints everything about the run is one of them.
    """
    run_id = record.run_id
    everything = (f"crosscheck show {run_id} --details", "all tables, MLflow")
    if record.retryable:
        first = (f"crosscheck rerun {run_id}", f"asks {record.retryable:,} again")
    elif (record.correct or 0) < (record.total or 0):
        first = (f"crosscheck show {run_id} --wrong", "the wrong answers")
    else:
        first = everything
    if before:
        second = (f"crosscheck compare {before} {run_id}", "with the run before")
    else:
        second = (f"crosscheck show {run_id} --open", "every question on a page")
    steps = dict.fromkeys((first, second, everything) if details else (first, second))
    commands = [(f"{command}{_home()}", why) for command, why in steps]
    width = max(len(command) for command, _ in commands)
    return [f"{command:<{width}}  # {why}" for command, why in commands]


def _places(mlflow: Ui, prefect: Ui) -> list[tuple[str, str]]:
    """Return where MLflow and Prefect show the run."""
    places = (
        ("MLflow  ", mlflow.command),
        ("  all runs", mlflow.runs),
        ("  this run", mlflow.page),
        ("Prefect ", prefect.command),
        ("        ", prefect.page),
    )
    return [(name, text) for name, text in places if text]


def _home() -> str:
    """Return the option `--home` of the present command, for the commands that are to follow it."""
    context = click.get_current_context(silent=True)
    home = context.params.get("home") if context else None
    return f" --home {shlex.quote(home)}" if home else ""


def command_seconds() -> float:
    """Return the seconds since the command began."""
    return time.monotonic() - STARTED

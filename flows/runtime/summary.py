"""The end of a command that made or shows a run: its first screen or all of it, where it is, and what to do next."""

import shlex
import time
from typing import TextIO

import click

from flows import STARTED
from flows.runtime.control import NOWHERE, Ui
from tasks.documents.model import Facts, Section, Sentence
from tasks.documents.terminal import open_console, print_blocks, print_document
from tasks.pages.first_screen import run_document
from tasks.results.run_record import RunRecord, Tracked
from tasks.settings.home import Home


def mlflow_ui(home: Home, tracked: Tracked) -> Ui:
    """Return where MLflow shows a run."""
    from flows.runtime.folder_use import store_for_links
    from tasks.results.mlflow.store import ui_command, ui_url

    store = store_for_links(home)
    command = ui_command(store) or f"MLflow's server answers at {store.printable}"
    if not tracked.experiment_id:
        return Ui(command)
    return Ui(
        command,
        page=ui_url(store, tracked.experiment_id, tracked.run_id),
        runs=ui_url(store, tracked.experiment_id),
    )


def print_summary(
    record: RunRecord,
    home: Home,
    stream: TextIO,
    *,
    details: bool = False,
    prefect: Ui = NOWHERE,
    ended: bool = True,
) -> None:
    """Print the first screen of a run, with `details` everything.

    `ended`: the run was just made, so `record` has its comparison and tables, and `prefect` is where Prefect shows it.
    Otherwise these are read from the warehouse.
    """
    from tasks.results.compare import compare_with_previous
    from tasks.results.warehouse.runs import Warehouse

    warehouse = Warehouse(home.warehouse)
    was_logged = bool(record.mlflow.run_id)
    places = []
    if details and (ended or was_logged):
        places = _places(mlflow_ui(home, record.mlflow), prefect)
    comparison = record.before if ended else compare_with_previous(record, warehouse)
    previous_run_id = comparison.a.run_id if comparison and comparison.same_system else ""
    steps = next_steps(record, previous_run_id, details=not details)
    further = (Facts(tuple(places)), Section("Next", tuple(Sentence(step, "command") for step in steps)))
    seconds = command_seconds() if ended else None
    tables = warehouse.tables_of(record.run_id) if details and not ended else record.tables
    document = run_document(record, comparison, tables, further, seconds=seconds, brief=not details)
    print_document(document, stream)


def print_repeated(record: RunRecord, home: Home, stream: TextIO, *, details: bool = False) -> None:
    """Print a finished run in place of an evaluation that would be an exact repetition of it."""
    text = (
        f"Nothing has changed since run {record.run_id} of {record.started:%Y-%m-%d %H:%M} UTC: settings, questions, "
        "golds, databases, prompts, code and versions are the same. Its result follows; nothing was asked, scored or "
        "logged. --again makes a new run."
    )
    print_blocks(open_console(stream), (Sentence(text, "score"), Sentence("")))
    print_summary(record, home, stream, details=details, ended=False)


def next_steps(record: RunRecord, before: str = "", *, details: bool = False) -> list[str]:
    """Return the commands to continue with, each with its reason.

    `before` is the id of the previous run of the same system; "" without one. With `details`, the command for all
    tables comes last.
    """
    run_id, options = record.run_id, folder_options("data", "home")
    wrong = (record.total or 0) - (record.correct or 0)
    everything = (f"crosscheck show {run_id} --details{options}", "all tables, MLflow")
    if record.to_retry:
        first = (f"crosscheck rerun {run_id}{options}", f"asks {record.to_retry:,} again")
    elif wrong and wrong == record.unanswered:
        first = (f"crosscheck show {run_id} --unanswered{options}", "the questions without an answer")
    elif wrong:
        first = (f"crosscheck show {run_id} --wrong{options}", "the wrong answers")
    else:
        first = everything
    if before:
        second = (f"crosscheck compare {before} {run_id}{folder_options('home')}", "with the previous run")
    else:
        second = (f"crosscheck show {run_id} --open{options}", "every question on a page")
    # the first one may be `everything` too: each command is printed once
    commands = dict.fromkeys((first, second, everything) if details else (first, second))
    width = max(len(command) for command, _ in commands)
    return [f"{command:<{width}}  # {reason}" for command, reason in commands]


def _places(mlflow: Ui, prefect: Ui) -> list[tuple[str, str]]:
    places = (
        ("MLflow  ", mlflow.command),
        ("  all runs", mlflow.runs),
        ("  this run", mlflow.page),
        ("Prefect ", prefect.command),
        ("        ", prefect.page),
    )
    return [(name, text) for name, text in places if text]


def folder_options(*names: str) -> str:
    """Return options of the present command that name folders, for a command that is to follow it."""
    context = click.get_current_context(silent=True)
    folders = {name: context.params.get(name) for name in names} if context else {}
    return "".join(f" --{name} {shlex.quote(folder)}" for name, folder in folders.items() if folder)


def command_seconds() -> float:
    """Return the seconds since the command began."""
    return time.monotonic() - STARTED

"""The end of a command that made or shows a run: its first screen or all of it, and what to do next."""

import shlex
import time
from dataclasses import dataclass
from typing import TextIO

import click

from flows import STARTED
from flows.runtime.result import NOWHERE, EvaluationResult, Ui, compared_with_run_before
from tasks.documents.model import Facts, Section, Sentence, Table
from tasks.documents.terminal import open_console, print_blocks, print_document
from tasks.pages.run import run_document
from tasks.results.run_record import RunRecord
from tasks.settings.home import Home


def print_summary(evaluated: EvaluationResult, home: Home, stream: TextIO, *, details: bool = False) -> None:
    """Print a run that has just ended."""
    tables = tuple(each for found in evaluated.report.measurements.values() for each in found.tables)
    shown = Shown(evaluated.record, home, tables, evaluated.mlflow, evaluated.prefect, command_seconds())
    print_run(shown, stream, details=details)


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
    print_run(Shown(record, home), stream, details=details)


@dataclass(frozen=True)
class Shown:
    """A run to be printed."""

    record: RunRecord
    home: Home
    tables: tuple[Table, ...] = ()  # those of its metrics
    mlflow: Ui = NOWHERE
    prefect: Ui = NOWHERE
    seconds: float | None = None  # how long the command took that made it; None: it was made before


def print_run(shown: Shown, stream: TextIO, *, details: bool = False) -> None:
    """Print the first screen of a run; with `details` everything, with the tables of every metric."""
    record = shown.record
    compared = compared_with_run_before(record.run_id, shown.home)
    before = compared.a.run_id if compared and compared.same_system else ""
    steps = next_steps(record, before, details=not details)
    places = Facts(tuple(_places(shown) if details else ()))
    more = (places, Section("Next", tuple(Sentence(step, "command") for step in steps)))
    document = run_document(record, compared, shown.tables, more, seconds=shown.seconds, brief=not details)
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


def _places(shown: Shown) -> list[tuple[str, str]]:
    """Return where MLflow and Prefect show the run."""
    places = [("MLflow  ", shown.mlflow.command), ("  all runs", shown.mlflow.runs)]
    places.append(("  this run", shown.mlflow.page))
    places += [("Prefect ", shown.prefect.command), ("        ", shown.prefect.page)]
    return [(name, text) for name, text in places if text]


def _home() -> str:
    """Return the option `--home` of the present command, for the commands that are to follow it."""
    context = click.get_current_context(silent=True)
    home = context.params.get("home") if context else None
    return f" --home {shlex.quote(home)}" if home else ""


def command_seconds() -> float:
    """Return the seconds since the command began."""
    return time.monotonic() - STARTED

"""The end of an evaluation: the document of the run, and what to do next."""

import shlex
import time
from typing import TextIO

import click

from flows import STARTED
from flows.report.result import EvaluationResult
from tasks.documents.model import Block, Facts, Section, Sentence
from tasks.documents.terminal import print_document
from tasks.tracking.run_document import run_document


def print_summary(evaluated: EvaluationResult, stream: TextIO, *, details: bool = False) -> None:
    """Print a run that has just ended; with `details` also the tables of every metric, and where it is shown."""
    tables = (
        [each for found in evaluated.report.measurements.values() for each in found.tables] if details else []
    )
    more: list[Block] = [Sentence(f"{command_seconds():.1f} s in all")]
    if details:
        shown = [("MLflow  ", evaluated.mlflow.command)]
        if evaluated.prefect.command:
            shown += [("Prefect ", evaluated.prefect.command), ("        ", evaluated.prefect.page)]
        more.append(Facts(tuple(shown)))
    more.append(Section("Next", tuple(map(Sentence, next_steps(evaluated)))))
    print_document(run_document(evaluated.record, tuple(tables), tuple(more)), stream)


def next_steps(evaluated: EvaluationResult) -> list[str]:
    """Return what to look at and what to do next: at most five lines, each a command or an address."""
    record, home = evaluated.record, _home()
    commands = [
        (f"crosscheck show {record.run_id} --wrong", "the wrong answers"),
        (f"crosscheck report {record.run_id} --open", "every question on a page"),
    ]
    if record.retryable:
        commands.append((f"crosscheck rerun {record.run_id}", f"asks {record.retryable:,} again"))
    elif evaluated.before:
        commands.append((f"crosscheck compare {evaluated.before} {record.run_id}", "with the run before"))
    if evaluated.mlflow.page and not evaluated.mlflow.served:
        commands.append(("crosscheck up", "starts MLflow, then open"))
    width = max(len(command) for command, _ in commands)
    lines = [f"{command:<{width}}{home}  # {why}" for command, why in commands]
    return [*lines, evaluated.mlflow.page] if evaluated.mlflow.page else lines


def _home() -> str:
    """Return the option `--home` of the present command, for the commands that are to follow it."""
    context = click.get_current_context(silent=True)
    home = context.params.get("home") if context else None
    return f" --home {shlex.quote(home)}" if home else ""


def command_seconds() -> float:
    """Return the seconds since the command began."""
    return time.monotonic() - STARTED

"""The repeats of a run: finished runs with its settings that requested new replies."""

from collections.abc import Sequence
from dataclasses import dataclass

from tasks.core.errors import DataError
from tasks.tracking.evaluation import NOISE, REPEAT
from tasks.tracking.run_record import RunHeader
from tasks.tracking.warehouse.run_names import find_run
from tasks.tracking.warehouse.runs import Warehouse
from tasks.tracking.warehouse.stored import StoredRun

SUFFIX = ":repeats"
"""After the name of a run: its repeats are meant."""


@dataclass(frozen=True, slots=True)
class RunRepeats:
    """A run, and its repeats that are whole."""

    run_id: str  # of the run that is repeated
    repeats: tuple[RunHeader, ...]  # by their number; the last one of each number


def repeated_run(reference: str, runs: Sequence[RunHeader]) -> RunHeader:
    """Return the run that a user refers to; a repeat stands for the run that it repeats.

    Raises:
        DataError: there is no such run.
    """
    found = find_run(reference, runs)
    parent = found.tags.get(NOISE)
    return find_run(parent, runs) if parent else found


def repeats_of(run_id: str, runs: Sequence[RunHeader]) -> tuple[RunHeader, ...]:
    """Return the repeats of a run that ended with an answer to every question that can be answered, by their number.

    Of several with one number it is the latest. Runs are given newest first.
    """
    found: dict[int, RunHeader] = {}
    for run in runs:
        whole = run.status == "complete" and not run.retryable and not run.rows_removed
        if run.tags.get(NOISE) == run_id and whole:
            found.setdefault(int(run.tags[REPEAT]), run)
    return tuple(found[number] for number in sorted(found))


def read_side(names: str, warehouse: Warehouse) -> tuple[StoredRun, ...]:
    """Return the runs that a user names on one side of a comparison.

    Args:
        names: a run; several, separated by commas; or "RUN:repeats", the repeats that `crosscheck noise` made of a run.
        warehouse: where they are.

    Raises:
        DataError: there is no run of a name, a run is named twice, or a run has no repeats.
    """
    runs, found = warehouse.runs(), list[str]()
    for name in (part.strip() for part in names.split(",")):
        if name.endswith(SUFFIX):
            run = repeated_run(name.removesuffix(SUFFIX), runs)
            repeats = [each.run_id for each in repeats_of(run.run_id, runs)]
            if not repeats:
                raise DataError(
                    f'{name}: the run {run.run_id} has no repeats. "crosscheck noise {run.run_id}" makes them.'
                )
            found += repeats
        else:
            found.append(find_run(name, runs).run_id)
    if twice := next((run_id for run_id in found if found.count(run_id) > 1), None):
        raise DataError(f"{names}: the run {twice} is named twice. Name each run once.")
    return tuple(warehouse.read_run(run_id) for run_id in found)

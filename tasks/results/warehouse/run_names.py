"""How a person names a run: by its id or the beginning of it, by MLflow's id, or as one of the latest."""

import re
from collections.abc import Sequence

from tasks.core.errors import DataError, did_you_mean
from tasks.core.wording import counted, percent_and_counts
from tasks.results.run_record import RunHeader

LATEST = re.compile(r"latest(?:~(\d+))?")
MAX_LISTED = 5


def find_run(reference: str, runs: Sequence[RunHeader]) -> RunHeader:
    """Return the run that a person means, of those that there are, newest first.

    The reference is Crosscheck's id of a run or MLflow's, or the beginning of either; or "latest", "latest~1", ...: the
    last run that was finished, the one before it, ...
    """
    if not runs:
        raise DataError(
            f'There is no run "{reference}": no run has been recorded yet. Run "crosscheck evaluate".'
        )
    if latest := LATEST.fullmatch(reference):
        return _latest(int(latest[1] or 0), reference, runs)
    if exact := [run for run in runs if reference in (run.run_id, run.mlflow_run_id)]:
        return exact[0]
    meant = [
        run
        for run in runs
        if reference and (run.run_id.startswith(reference) or (run.mlflow_run_id or "").startswith(reference))
    ]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise DataError(
            f'"{reference}" is the beginning of {len(meant)} runs:{_listed(meant)}\nWrite more of its id.'
        )
    near = did_you_mean(reference, [run.run_id for run in runs])
    hint = f" {near}" if near.startswith("Did") else ""
    raise DataError(
        f'There is no run "{reference}".{hint} The latest runs are:{_listed(runs)}\n'
        '"crosscheck runs" lists all of them; "latest" and "latest~1" name the last two that were finished.'
    )


def previous_run(this: RunHeader, runs: Sequence[RunHeader]) -> str:
    """Return the id of the previous finished run that a run is compared with, "" if there is none.

    That is the run that was re-run; else the last one of the same backbone and pipeline; else the last one. It has the
    same benchmark, questions and rule, and its questions are in the warehouse. Runs are given newest first; a run that
    is not among them is newer than all.
    """
    ids = [run.run_id for run in runs]
    earlier = runs[ids.index(this.run_id) + 1 :] if this.run_id in ids else runs
    comparable = comparable_runs(this, earlier)
    parent = this.tags.get("parent_run_id")
    comparable.sort(key=lambda run: (run.run_id != parent, run.combination != this.combination))
    return comparable[0].run_id if comparable else ""


def comparable_runs(this: RunHeader, runs: Sequence[RunHeader]) -> list[RunHeader]:
    """Return the other finished runs with the benchmark, questions and rule of a run; their questions are there."""
    names = ("benchmark", "revision", "question_set", "rule")
    return [
        run
        for run in runs
        if run.is_finished
        and not run.rows_removed
        and run.run_id != this.run_id
        and all(getattr(run, name) == getattr(this, name) for name in names)
    ]


def run_line(run: RunHeader) -> str:
    """Describe a run in one line: its id, what it evaluated, how it ended and what it scored."""
    score = f", EX {percent_and_counts(run.accuracy)}" if run.accuracy else ""
    status = "" if run.status == "complete" else f", {run.status}"
    return f"{run.run_id}  {run.benchmark}: {run.backbone} | {run.pipeline}{score}{status}"


def _latest(back: int, reference: str, runs: Sequence[RunHeader]) -> RunHeader:
    finished = [run for run in runs if run.is_finished]
    if back < len(finished):
        return finished[back]
    last = f', so "latest~{len(finished) - 1}" is the oldest' if finished else ""
    count = counted(len(finished), "run")
    raise DataError(
        f'There is no run "{reference}": {count} finished so far{last}. "crosscheck runs" lists all runs.'
    )


def _listed(runs: Sequence[RunHeader]) -> str:
    lines = "".join(f"\n  {run_line(run)}" for run in runs[:MAX_LISTED])
    return lines + (f"\n  and {len(runs) - MAX_LISTED} more" if len(runs) > MAX_LISTED else "")

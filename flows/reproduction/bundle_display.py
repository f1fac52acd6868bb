"""Output of `crosscheck import --bundle`."""

from dataclasses import asdict
from typing import Any

from flows.reproduction.bundle import ImportedRun
from flows.reproduction.bundle_differences import Difference
from tasks.core.wording import UNKNOWN, counted, percent_and_counts
from tasks.documents.model import Block, Column, Document, Sentence, Span, Table
from tasks.scoring.score import Score
from tasks.tracking.run_record import json_of


def as_object(found: ImportedRun) -> dict[str, Any]:
    """Return the imported run and what differs as plain JSON."""
    return {
        "run_id": found.bundle.run.run_id,
        "bundle": str(found.bundle.file),
        "sha256": found.bundle.digest,
        "figures": asdict(found.figures),
        "differences": [asdict(each) for each in found.differences],
        "record": json_of(found.result.record),
    }


def imported_document(found: ImportedRun) -> Document:
    """Return the scores in the bundle and here, and what differs."""
    run, figures = found.bundle.run, found.figures
    theirs, ours = found.bundle.record.scores, found.result.record.scores
    rows = tuple(
        (name, _score(theirs.get(name)), _score(ours.get(name))) for name in dict.fromkeys((*theirs, *ours))
    )
    equal = figures.compared - len(figures.differing)
    blocks: list[Block] = [
        Table("Execution accuracy", ("", "in the bundle", "here"), rows),
        Sentence(f"{equal:,} of {counted(figures.compared, 'figure')} are equal.", "score"),
    ]
    if figures.differing:
        blocks.append(_table("Figures that differ", figures.differing))
    if found.differences:
        blocks.append(_table("What else differs", found.differences))
    else:
        blocks.append(
            Sentence("Databases, answer keys, settings, versions and verdicts are those of the bundle.")
        )
    if problem := found.result.record.mlflow.problem:
        blocks.append(Sentence(problem, "warning"))
    blocks.append(Sentence(f"crosscheck show {run.run_id} shows the run.", "note"))
    lead = (Span(run.name, "strong"), f" on {run.benchmark}, imported as run {run.run_id}")
    return Document("", tuple(blocks), lead)


def _score(score: Score | None) -> str:
    return percent_and_counts(score) if score else UNKNOWN


def _table(title: str, differences: tuple[Difference, ...]) -> Table:
    columns = (Column("", "text"), Column("in the bundle", "text"), Column("here", "text"))
    return Table(title, columns, tuple((each.what, each.bundle, each.here) for each in differences))

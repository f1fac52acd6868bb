"""From people's verdicts to an answer key, and what the key changes of the scores of runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.gold.verdicts import Imported, decide, read_verdicts, write_key
from flows.runtime.control import Progress
from flows.runtime.folders import Folders
from flows.scoring.stored_answers import judged_by_keys
from tasks.core.errors import ConfigurationError
from tasks.core.wording import DASH, counted, counts, percent, shorten
from tasks.documents.model import Block, Document, Sentence, Span, Table
from tasks.scoring.golds.agreement import Agreement
from tasks.scoring.score import Score
from tasks.scoring.variants import key_variant, score_by
from tasks.settings.benchmark import BenchmarkSettings, key_name
from tasks.tracking.mlflow.store import find_store
from tasks.tracking.review.queue import Verdict, read_queue
from tasks.tracking.warehouse.stored import StoredRun

MOST_IDS = 20


@dataclass(frozen=True)
class ImportResult:
    """The key that verdicts make, and the scores of runs by it."""

    benchmark: BenchmarkSettings
    file: Path  # the key
    imported: Imported
    scores: tuple[tuple[StoredRun, Score], ...] = field(default=(), repr=False)  # by the key, of each run


def import_verdicts(
    settings: BenchmarkSettings,
    sources: Sequence[Path],
    queue: str | None,
    output: Path,
    decides: str,
    runs: Sequence[StoredRun],
    folders: Folders,
    progress: Progress,
) -> ImportResult:
    """Read verdicts from files and from MLflow's queue, write the key, and score runs by it.

    Raises:
        CrosscheckError: everything that is wrong with the verdicts, or the key exists already.
    """
    if not sources and queue is None:
        raise ConfigurationError("Name files with verdicts, or a review queue of MLflow with --queue NAME.")
    if output.exists():
        raise ConfigurationError(f"--output {output}: the file is there already; name another one.")
    for run in runs:
        if run.run.benchmark != settings.name:
            raise ConfigurationError(
                f"Run {run.run.run_id} is of {run.run.benchmark}, the verdicts are about {settings.name}."
            )
    progress.step(f"Reading {settings.name}")
    benchmark = folders.benchmark(settings, progress)
    verdicts: list[Verdict] = list(read_verdicts(sources))
    if queue is not None:
        verdicts += read_queue(find_store(folders.home), settings.name, queue)
    imported = decide(verdicts, [question.id for question in benchmark.questions], decides)
    write_key(imported, output)
    scores: tuple[tuple[StoredRun, Score], ...] = ()
    if runs:
        item = str(output.resolve())
        judged = judged_by_keys(runs, [item], folders, progress)
        variant = key_variant(key_name(item))
        scores = tuple(
            (run, score_by(variant, [row for row in judged[run.run.run_id] if row.executable], run.run.rule))
            for run in runs
        )
    return ImportResult(settings, output, imported, scores)


def as_object(result: ImportResult) -> dict[str, Any]:
    """Return the result as plain JSON."""
    from dataclasses import asdict

    imported = result.imported
    return {
        "benchmark": result.benchmark.name,
        "file": str(result.file),
        "verdicts": len(imported.verdicts),
        "decides": imported.decides,
        "agreement": asdict(imported.agreement),
        "actions": dict(imported.actions),
        "kept": list(imported.kept),
        "corrections": list(imported.entries),
        "scores": [
            {"run_id": run.run.run_id, "before": _accuracy(run), "after": asdict(score)}
            for run, score in result.scores
        ],
    }


def _accuracy(run: StoredRun) -> dict[str, Any]:
    return {name: getattr(run.record.score, name) for name in ("correct", "total", "ex")}


def import_document(result: ImportResult) -> Document:
    """Return what was decided, how far the reviewers agree, and the scores before and after."""
    imported, blocks = result.imported, list[Block]()
    blocks.append(Sentence(in_words(imported.agreement)))
    blocks.append(Sentence(f"Decided by: {imported.decides}."))
    for action, count in imported.actions.items():
        ids = [entry["question_id"] for entry in imported.entries if entry["action"] == action]
        blocks.append(Sentence(f"{action}: {count:,} ({shorten(ids, MOST_IDS)})"))
    if imported.kept:
        blocks.append(Sentence(f"kept: {len(imported.kept):,} ({shorten(imported.kept, MOST_IDS)})"))
    if result.scores:
        rows = tuple(
            (
                f"{run.run.name} ({run.run.run_id})",
                percent(run.record.score),
                counts(run.record.score),
                percent(score),
                counts(score),
                counts(score.official) if score.official else DASH,
                score.differs.in_words() or "nothing",
            )
            for run, score in result.scores
        )
        headers = ("run", "before", "right", "after", "right ", "official, same questions", "what differs")
        blocks.append(Table("Scores", headers, rows))
    blocks.append(Sentence(f"Written: {result.file}. Use it with --set benchmark.answer_keys={result.file}"))
    title = counted(len(imported.verdicts), "verdict")
    return Document(title, tuple(blocks), (Span(result.benchmark.name, "strong"), ""))


def in_words(found: Agreement) -> str:
    """Say how far the reviewers agree."""
    names = f"{counted(len(found.reviewers), 'reviewer')} ({', '.join(found.reviewers)})"
    if not found.statistic:
        return f"{names}: agreement needs at least two reviewers."
    kappa = "not defined, all verdicts are the same" if found.kappa is None else f"{found.kappa:.3f}"
    return (
        f"{names} agree on {found.unanimous:,} of {counted(found.questions, 'question')} that all of them judged; "
        f"{found.statistic} {kappa}."
    )

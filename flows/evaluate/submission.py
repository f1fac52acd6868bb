"""Writes a stored run as the file that BIRD's or Spider's official evaluator reads."""

from dataclasses import dataclass
from pathlib import Path

from flows.runtime.folders import Folders
from flows.runtime.output import write_text
from tasks.benchmarks.layouts import Submission as Form
from tasks.core.errors import CrosscheckError, DataError
from tasks.results.predictions import has_break, submission_text
from tasks.results.run_record import RunRecord


@dataclass(frozen=True)
class Exported:
    """An exported submission."""

    file: str
    form: Form
    questions: int  # questions of the benchmark, which all have an entry
    answered: int  # entries with an SQL of the run
    changed: tuple[str, ...]  # ids of questions whose SQL the form cannot hold as it is


def export_submission(run: RunRecord, target: Path, folders: Folders, form: Form | None) -> Exported:
    """Write the final SQL of every question; a question of the benchmark that the run left out has no answer.

    Both evaluators pair predictions with the gold by position, so every question of the benchmark has its entry.
    Without a form, the benchmark's own is written.
    """
    try:
        benchmark = folders.benchmark_of(run)
    except CrosscheckError as error:
        raise DataError(
            f"The order of the questions is that of the benchmark's file, which is needed: {error}"
        ) from None
    if benchmark.digest != run.question_sha256:
        raise DataError(
            f"{benchmark.question_files[0]} is not the file that run {run.run_id} was made with: its "
            "sha256 differs. Name the folder with the run's revision with --data."
        )
    sqls = {row.question.id: row.outcome.sql for row in run.rows}
    form = form or benchmark.layout.submission
    questions = benchmark.questions
    write_text(submission_text(questions, sqls, form), target, "--submission", "file")
    with_break = [question.id for question in questions if has_break(sqls.get(question.id))]
    return Exported(
        file=str(target),
        form=form,
        questions=len(questions),
        answered=sum(bool(sqls.get(question.id)) for question in questions),
        changed=tuple(with_break) if form == "lines" else (),
    )

"""Writes a stored run as the file that BIRD's or Spider's official evaluator reads."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flows.runtime.folders import Folders
from flows.runtime.output import write_text
from tasks.benchmarks.layouts import Submission as Form
from tasks.benchmarks.predictions.formats import BIRD_MARK, NO_ANSWER
from tasks.core.errors import CrosscheckError, DataError
from tasks.core.records import Question
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


_PIECES = re.compile(
    r"""(?P<quoted>(?:'(?:[^']|'')*+' | "(?:[^"]|"")*+" | `[^`]*+` | \[[^\]]*+\]) | ['"`\[].*)
      | (?P<gap>(?> --[^\n]* | /\*.*?(?:\*/|\Z) | [ \t\r\n\f]++ )++)""",
    re.VERBOSE | re.DOTALL,
)
_BREAKS = re.compile(r"[\t\r\n\f\v]+")


def submission_text(questions: Sequence[Question], sqls: Mapping[str, str | None], form: Form) -> str:
    """Return the SQL of questions, by their ids, in the form that an official evaluator reads, in their order.

    "bird" (and everything laid out like it): a JSON object, question id -> SQL, tab, `----- bird -----`, tab,
    database. "lines", Spider's: one SQL per line.
    """
    if form == "lines":
        lines = (one_line(sqls.get(question.id) or NO_ANSWER) for question in questions)
        return "".join(f"{line or NO_ANSWER}\n" for line in lines)
    answers = {
        question.id: f"{sqls.get(question.id) or NO_ANSWER}\t{BIRD_MARK}\t{question.database_id}"
        for question in questions
    }
    return json.dumps(answers, indent=4, ensure_ascii=False)


def has_break(sql: str | None) -> bool:
    """Return whether a SQL has a line break or tab in a literal: Spider's form cannot hold it."""
    quoted = (match.group() for match in _PIECES.finditer(sql or "") if match.lastgroup == "quoted")
    return any(map(_BREAKS.search, quoted))


def one_line(sql: str) -> str:
    r"""Return a SQL without line breaks and tabs: comments go, white space shrinks, literals keep theirs.

    A line break or tab inside a literal becomes a space: the format has no way to write it. Other blanks, such as a
    no-break space, stay: a SQL that fails because of one must fail for the official evaluator, too.

    >>> one_line("SELECT a -- the key\n  FROM t\tWHERE b = '-- no  comment'")
    "SELECT a FROM t WHERE b = '-- no  comment'"
    """

    def shrink(match: re.Match[str]) -> str:  # a literal, a comment or white space
        return _BREAKS.sub(" ", match.group()) if match.lastgroup == "quoted" else " "

    return _PIECES.sub(shrink, sql).strip(" ")

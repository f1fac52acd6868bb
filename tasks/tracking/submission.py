"""Predictions in the benchmark's own submission format, for its official evaluator."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tasks.benchmarks.layouts.base import Submission as Form
from tasks.benchmarks.layouts.base import layout_of
from tasks.benchmarks.predictions.formats import BIRD_MARK, NO_ANSWER
from tasks.scoring.report import Report

ENDINGS: Mapping[Form, str] = {"bird": "json", "lines": "txt"}

_PIECES = re.compile(
    r"""(?P<quoted>(?:'(?:[^']|'')*+' | "(?:[^"]|"")*+" | `[^`]*+` | \[[^\]]*+\]) | ['"`\[].*)
      | (?P<gap>(?> --[^\n]* | /\*.*?(?:\*/|\Z) | \s++ )++)""",
    re.VERBOSE | re.DOTALL,
)
_BREAKS = re.compile(r"[\t\r\n\f\v]+")


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission file: its name below the run's artifacts, and its text."""

    file_name: str
    text: str


@dataclass(frozen=True, slots=True)
class Prediction:
    """One line of a submission: the SQL of a question, None where there is none."""

    question_id: str
    database_id: str
    sql: str | None


def submission(report: Report, layout: str, questions_in_benchmark: int | None = None) -> Submission:
    """Return the submission of a run, questions in benchmark order.

    A run over a part of the benchmark has "partial" in the file name, since line numbers of Spider's format then no
    longer are question ids.
    """
    part = questions_in_benchmark is not None and len(report.rows) < questions_in_benchmark
    stem = "submission/predict.partial" if part else "submission/predict"
    form = layout_of(layout).submission
    predictions = [
        Prediction(row.question.id, row.question.database_id, row.outcome.sql) for row in report.rows
    ]
    return Submission(f"{stem}.{ENDINGS[form]}", submission_text(predictions, form))


def submission_text(predictions: Sequence[Prediction], form: Form) -> str:
    """Return predictions in the form that an official evaluator reads, in their order.

    "bird" (and everything laid out like it): a JSON object, question id -> SQL, tab, `----- bird -----`, tab,
    database. "lines", Spider's: one SQL per line.
    """
    if form == "lines":
        lines = [one_line(each.sql) if each.sql else NO_ANSWER for each in predictions]
        return "".join(f"{line or NO_ANSWER}\n" for line in lines)
    answers = {
        each.question_id: f"{each.sql or NO_ANSWER}\t{BIRD_MARK}\t{each.database_id}" for each in predictions
    }
    return json.dumps(answers, indent=4, ensure_ascii=False)


def changed_literals(predictions: Iterable[Prediction]) -> tuple[str, ...]:
    """Return the ids of questions whose SQL has a line break or tab in a literal: Spider's form cannot hold it."""
    return tuple(
        each.question_id
        for each in predictions
        if any(
            match.lastgroup == "quoted" and _BREAKS.search(match.group())
            for match in _PIECES.finditer(each.sql or "")
        )
    )


def one_line(sql: str) -> str:
    r"""Return a SQL without line breaks and tabs: comments go, white space shrinks, literals keep theirs.

    A line break or tab inside a literal becomes a space: the format has no way to write it.

    >>> one_line("SELECT a -- the key\n  FROM t\tWHERE b = '-- no  comment'")
    "SELECT a FROM t WHERE b = '-- no  comment'"
    """

    def piece(match: re.Match[str]) -> str:
        return _BREAKS.sub(" ", match.group()) if match.lastgroup == "quoted" else " "

    return _PIECES.sub(piece, sql).strip()

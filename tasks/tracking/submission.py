"""Predictions in the benchmark's own submission format, for its official evaluator."""

import json
import re
from dataclasses import dataclass

from tasks.benchmarks.layouts.base import layout_of
from tasks.benchmarks.predictions.formats import NO_ANSWER
from tasks.scoring.report import Report

_PIECES = re.compile(
    r"""(?P<quoted>'(?:[^']|'')*' | "(?:[^"]|"")*" | `[^`]*` | \[[^\]]*\])
      | (?P<gap>(?: --[^\n]* | /\*.*?\*/ | \s )+)""",
    re.VERBOSE | re.DOTALL,
)
_BREAKS = re.compile(r"[\t\r\n\f\v]+")


@dataclass(frozen=True, slots=True)
class Submission:
    """A submission file: its name below the run's artifacts, and its text."""

    file_name: str
    text: str


def submission(report: Report, layout: str, questions_in_benchmark: int | None = None) -> Submission:
    """Return the submission of a run, questions in benchmark order.

    BIRD (and everything laid out like it): a JSON object, question id -> SQL, tab, `----- bird -----`, tab,
    database. Spider: one SQL per line. A run over a part of the benchmark has "partial" in the file name,
    since line numbers of Spider's format then no longer are question ids.
    """
    part = questions_in_benchmark is not None and len(report.rows) < questions_in_benchmark
    stem = "submission/predict.partial" if part else "submission/predict"
    if layout_of(layout).submission == "lines":
        lines = [one_line(row.outcome.sql) if row.outcome.sql else NO_ANSWER for row in report.rows]
        return Submission(f"{stem}.txt", "".join(f"{line or NO_ANSWER}\n" for line in lines))
    answers = {
        row.question.id: f"{row.outcome.sql or NO_ANSWER}\t----- bird -----\t{row.question.database_id}"
        for row in report.rows
    }
    return Submission(f"{stem}.json", json.dumps(answers, indent=4, ensure_ascii=False))


def one_line(sql: str) -> str:
    r"""Return a SQL without line breaks and tabs: comments go, white space shrinks, literals keep theirs.

    A line break or tab inside a literal becomes a space: the format has no way to write it.

    >>> one_line("SELECT a -- the key\n  FROM t\tWHERE b = '-- no  comment'")
    "SELECT a FROM t WHERE b = '-- no  comment'"
    """

    def piece(match: re.Match[str]) -> str:
        return _BREAKS.sub(" ", match.group()) if match.lastgroup == "quoted" else " "

    return _PIECES.sub(piece, sql).strip()

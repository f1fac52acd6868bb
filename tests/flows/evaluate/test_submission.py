"""Submission files: what the official evaluators read."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from flows.evaluate.submission import one_line, submission_text
from tasks.benchmarks.layouts import Submission
from tasks.benchmarks.predictions.formats import NO_ANSWER
from tasks.scoring.scores import QuestionScore
from tests.support.pairs import Pair, read_pairs
from tests.tasks.results.samples import make_rows


def submission(rows: Sequence[QuestionScore], form: Submission) -> str:
    sqls = {row.question.id: row.outcome.sql for row in rows}
    return submission_text([row.question for row in rows], sqls, form)


CASES = read_pairs(Path(__file__).parent / "fixtures" / "one_line.txt")


@pytest.mark.parametrize("pair", CASES, ids=[case.title for case in CASES])
def test_sql_fits_on_one_line(pair: Pair) -> None:
    assert one_line(pair.given) == pair.expected
    assert one_line(pair.expected) == pair.expected


def test_bird_keeps_every_id_with_its_database_as_the_published_baseline_does(shared_data: Path) -> None:
    file = shared_data / "predictions/bird-dev-gpt-3.5-turbo-knowledge.json"
    separator = "\t----- bird -----\t"
    assert json.loads(file.read_text(encoding="utf-8"))["0"].count(separator) == 1
    rows = make_rows(12)
    answers = json.loads(submission(rows, "bird"))
    assert list(answers) == [str(number) for number in range(12)]
    assert answers["3"] == f"{rows[3].outcome.sql}{separator}card games"
    assert answers["10"] == f"{NO_ANSWER}{separator}superhero"


def test_spider_keeps_every_line_also_for_an_answer_of_comments_only() -> None:
    rows = make_rows(12)
    lines = submission(rows, "lines").split("\n")
    assert len(lines) == 13
    assert lines[12] == ""
    assert lines[10] == NO_ANSWER
    assert lines[3] == "SELECT COUNT(*) FROM hero WHERE power = '3'"
    row = make_rows(1)[0]
    silent = replace(row, outcome=replace(row.outcome, sql="-- I cannot say"))
    assert submission((silent,), "lines") == f"{NO_ANSWER}\n"


def test_the_placeholder_fails_where_an_empty_statement_would_pass_for_an_empty_result() -> None:
    import sqlite3

    with sqlite3.connect(":memory:") as connection:
        assert connection.execute("").fetchall() == []
        with pytest.raises(sqlite3.OperationalError, match="no such column"):
            connection.execute(NO_ANSWER)


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u2028", "\x0b"])
def test_blanks_that_are_none_in_sql_stay(blank: str) -> None:
    sql = f"SELECT{blank}name FROM hero{blank}"
    assert one_line(sql) == sql

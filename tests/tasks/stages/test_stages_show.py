"""How results are shown to a backbone."""

import pytest

from tasks.core.records import Execution
from tasks.stages.schema_prompt import MAX_ERROR, outcome_of, show_result

TWO = Execution("ok", ("id", "name"), ((1, "Ann"), (2, None)), row_count=2)


@pytest.mark.parametrize(
    ("execution", "shown", "outcome"),
    [
        (None, "There is no query.", "no_answer"),
        (Execution("ok", ("a",), (), row_count=0), "No rows.", "empty"),
        (Execution("error", error="no such column: x"), "Error: no such column: x", "error"),
        (Execution("too_large", error="More than 5 rows."), "Error: More than 5 rows.", "too_large"),
        (TWO, "id | name\n1 | Ann\n2 | NULL", "ok"),
    ],
)
def test_a_result_is_its_rows_or_why_there_are_none(execution: Execution, shown: str, outcome: str) -> None:
    assert show_result(execution, 5) == shown
    assert outcome_of(execution) == outcome


def test_a_time_out_reads_the_same_however_long_it_took() -> None:
    shown = {show_result(Execution("timeout", error=f"{s} s", seconds=s), 5) for s in (30.0, 30.6, 32.1)}
    assert shown == {"Time-out: the query took too long and was stopped."}
    assert outcome_of(Execution("timeout")) == "timeout"


@pytest.mark.parametrize(
    ("count", "rows", "said"),
    [
        (1, 5, "(1 row)"),
        (2, 5, "(2 rows)"),
        (2, 1, "(2 rows, first 1 shown)"),
        (900, 2, "(900 rows, first 2 shown)"),
    ],
)
def test_counts_say_how_many_rows_there_are(count: int, rows: int, said: str) -> None:
    execution = Execution("ok", ("id", "name"), TWO.rows[:count], row_count=count)
    assert show_result(execution, rows, counts=True).splitlines()[-1] == said
    assert said not in show_result(execution, rows)


def test_a_value_stays_on_its_line_and_is_cut_to_a_readable_length() -> None:
    values = ("two\nlines\r\nof\u2028text", "x" * 300, b"\x00\x01\x02", 1.5, "")
    execution = Execution("ok", ("a\nb", "b", "c", "d", "e"), (values,), row_count=1)
    header, row = show_result(execution, 5).split("\n")
    assert header == "a b | b | c | d | e"
    assert row == f"two lines of text | {'x' * 100}... | <3 bytes> | 1.5 | "


def test_an_error_that_quotes_the_whole_statement_is_cut() -> None:
    shown = show_result(Execution("error", error="unrecognized token: \"'a\nb" + "c" * 5000), 5)
    assert shown.startswith("Error: unrecognized token: \"'a b")
    assert len(shown) == len("Error: ") + MAX_ERROR + len("...")

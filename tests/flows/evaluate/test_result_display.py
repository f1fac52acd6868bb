"""Two results side by side: the rows that only one of them has are marked, and come first."""

import io

import pytest

from flows.cli.display.question import print_results
from flows.evaluate.question_view import differing_rows
from tasks.core.records import Execution
from tasks.documents.terminal import open_console, print_sql


def result(*rows: tuple[object, ...], columns: int = 1, count: int | None = None) -> Execution:
    return Execution("ok", ("c",) * columns, rows, len(rows) if count is None else count)


@pytest.mark.parametrize(("predicted", "gold", "sets", "places"), [
    (result((1,), (2,)), result((2,), (3,)), False, ({0}, {1})),
    (result((1,), (1,)), result((1,)), False, ({1}, set())),  # a row too many
    (result((1,), (1,)), result((1,)), True, (set(), set())),  # bird: duplicates do not count
    (result((2,), (1,)), result((1,), (2,)), False, (set(), set())),  # another order is no other row
    (result((1.0,)), result((1,)), False, (set(), set())),  # equal as the rules compare them
    (result(("1",)), result((1,)), False, ({0}, {0})),
    (result((1, 2), columns=2), result((1,)), False, (None, None)),  # other columns
    (result((1,), count=9), result((1,)), False, (None, None)),  # not read to its end
    (Execution("error", error="no such table"), result((1,)), False, (None, None)),
    (None, result((1,)), False, (None, None)),
])  # fmt: skip
def test_rows_that_only_one_result_has(
    predicted: Execution | None, gold: Execution, sets: bool, places: tuple[set[int] | None, set[int] | None]
) -> None:
    assert differing_rows(predicted, gold, sets=sets) == places


def shown(predicted: Execution | None, gold: Execution, rows: int = 2, *, marked: bool = True) -> list[str]:
    stream = io.StringIO()
    differing = differing_rows(predicted, gold, sets=False) if marked else (None, None)
    print_results(open_console(stream), predicted, gold, rows, differing)
    return [" ".join(line.split()) for line in stream.getvalue().splitlines()]


def test_marked_rows_come_first_and_the_rest_is_counted() -> None:
    lines = shown(result((1,), (2,), (3,), (9,)), result((1,), (2,), (3,)))
    assert lines == [
        "prediction: 4 rows, 1 only here (≠) | gold: 3 rows",
        "c | c",
        "≠ 9 | 1",
        "1 | 2",
        "… 2 more rows | … 1 more row",
    ]


def test_a_right_answer_has_no_mark() -> None:
    assert not any("≠" in line for line in shown(result((1,)), result((2,)), marked=False))
    assert shown(None, result((2,)))[0] == "prediction: no SQL | gold: 1 row"


def test_the_difference_of_two_sqls_is_underlined_where_no_colour_is() -> None:
    stream = io.StringIO()
    print_sql(open_console(stream), "SELECT a,\n  b FROM t", "SELECT a,\n  c FROM t")
    assert stream.getvalue() == "    SELECT a,\n      b FROM t\n      ^\n"
    stream = io.StringIO()
    print_sql(open_console(stream), "SELECT a", "SELECT a")
    assert stream.getvalue() == "    SELECT a\n"

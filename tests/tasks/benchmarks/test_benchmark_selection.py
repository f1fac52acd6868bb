"""Questions are selected by id, range, file and number, and a wrong id is never passed over."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.benchmarks.selection import select
from tasks.core.errors import ConfigurationError
from tasks.core.records import Question
from tasks.settings.choices import QuestionSelection


def asked(*ids):
    return tuple(Question(str(identity), f"Question {identity}?", "db") for identity in ids)


NUMBERED = asked(*range(20))


def ids_of(questions):
    return [question.id for question in questions]


@pytest.mark.parametrize(("questions", "asked_for", "expected"), [
    (NUMBERED, {}, ids_of(NUMBERED)),
    (NUMBERED, {"questions": "3"}, ["3"]),
    (NUMBERED, {"questions": "5-7,1"}, ["1", "5", "6", "7"]),
    (NUMBERED, {"questions": " 5 - 6 , 6,5"}, ["5", "6"]),
    (NUMBERED, {"questions": "18-25"}, ["18", "19"]),
    (NUMBERED, {"questions": "0-0"}, ["0"]),
    (NUMBERED, {"questions": "3,,"}, ["3"]),
    (NUMBERED, {"questions": "10-15", "limit": 2}, ["10", "11"]),
    (NUMBERED, {"limit": 99}, ids_of(NUMBERED)),
    (asked(3, 40, 41, 700), {"questions": "4-100"}, ["40", "41"]),
    (asked("1-2", 1, 2), {"questions": "1-2"}, ["1-2"]),
])  # fmt: skip
def test_ids_and_ranges_come_in_the_order_of_the_benchmark(questions, asked_for, expected):
    assert ids_of(select(questions, QuestionSelection(**asked_for))) == expected


@pytest.mark.parametrize(("ids", "said"), [
    ("3,99,x", "no question has the ids 99, x. The ids are numbers from 0 to 19."),
    ("9-3", "the range 9-3 is reversed. Write 3-9."),
    ("20-30", "20-30"),
    ("", "names no question"),
    (" , ", "names no question"),
    ("-3", "-3"),
    ("@nowhere.txt", "nowhere.txt cannot be read"),
])  # fmt: skip
def test_ids_that_meet_nothing_are_named(ids, said):
    with pytest.raises(ConfigurationError) as caught:
        select(NUMBERED, QuestionSelection(questions=ids))
    assert said in str(caught.value)


def test_a_misspelt_id_is_met_with_the_nearest():
    with pytest.raises(ConfigurationError, match='Did you mean "sf_bq011"'):
        select(asked("sf_bq011", "local002"), QuestionSelection(questions="sf_bq11"))


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit):
    with pytest.raises(ConfigurationError, match="--limit"):
        QuestionSelection.of_options(limit=limit)


def test_a_file_names_one_id_or_range_per_line(tmp_path):
    path = tmp_path / "ids.txt"
    path.write_text("\ufeff7\n\n# wrong answers\n 2-3 \n")
    assert ids_of(select(NUMBERED, QuestionSelection(questions=f"@{path}"))) == ["2", "3", "7"]


def test_a_file_of_ids_that_comes_with_the_program_is_found_by_its_name():
    found = select(asked(*range(1534)), QuestionSelection(questions="@bird-dev-sds"))
    assert (len(found), found[0].id, found[-1].id) == (147, "9", "1533")


@given(st.sets(st.integers(0, 19), min_size=1), st.permutations(range(20)))
def test_selecting_by_ids_keeps_exactly_those_in_order(wanted, order):
    questions = asked(*order)
    selected = select(questions, QuestionSelection(questions=",".join(map(str, sorted(wanted)))))
    assert ids_of(selected) == [str(number) for number in order if number in wanted]

"""Training pairs: their targets, their file, and the wall between training and evaluation."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.core.errors import ConfigurationError, DataError
from tasks.core.records import Question
from tasks.finetuning.pairs import (
    deduplicated,
    digest_of,
    hold_out,
    make_pair,
    read_pairs,
    refuse_evaluated,
    refuse_trained,
    without_likeness,
    write_pairs,
)
from tasks.stages.sea_sql.elimination_prompt import EliminationPrompt
from tests.tasks.finetuning.conftest import pair

PROMPT = EliminationPrompt("Judge.", "### SQL 1\nSELECT 2")


def question(number: int, text: str, database: str = "museum") -> Question:
    return Question(str(number), text, database)


def test_the_target_is_the_sql_if_it_is_right_and_the_gold_if_not() -> None:
    right = make_pair(question(1, "q"), PROMPT, "SELECT 2", "SELECT 1 ;\n", right=True)
    wrong = make_pair(question(1, "q"), PROMPT, "SELECT 2", "SELECT 1 ;\n", right=False)
    assert (right.response, wrong.response) == ("SELECT 2", "SELECT 1")
    assert right.prompt == PROMPT


def test_pairs_are_written_and_read_back_line_by_line(tmp_path: Path) -> None:
    pairs = (pair(1, sql="SELECT 'é\u2028\n'"), pair(2, right=False))
    file = tmp_path / "new" / "pairs.jsonl"
    write_pairs(file, pairs)
    assert read_pairs(file) == pairs
    assert [path.name for path in file.parent.iterdir()] == ["pairs.jsonl"]
    first = file.read_text(encoding="utf-8").partition("\n")[0]
    assert first.startswith('{"instruction": "Judge.", "input": "q1", "response": ')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read"),
        ("", "holds no training pair"),
        ("{}\n", "line 1: no training pair (instruction: Field required)"),
        ("\n[1]\n", "line 2: no training pair"),
        ("{", "line 1: no training pair"),
    ],
)
def test_a_file_that_holds_no_pairs_says_where_and_what_to_do(
    tmp_path: Path, text: str | None, said: str
) -> None:
    file = tmp_path / "pairs.jsonl"
    if text is not None:
        file.write_text(text)
    with pytest.raises(DataError) as caught:
        read_pairs(file)
    assert said in str(caught.value) and str(file) in str(caught.value)


def test_a_prompt_is_kept_once() -> None:
    assert deduplicated([pair(1), pair(2), pair(1), pair(2, right=False)]) == (pair(1), pair(2))


def test_the_digest_is_of_what_is_taught() -> None:
    assert digest_of([pair(1)]) == digest_of([pair(1, question="other words?")])
    assert (
        len(
            {digest_of(pairs) for pairs in ([pair(1)], [pair(2)], [pair(1), pair(2)], [pair(2, right=False)])}
        )
        == 4
    )


def test_a_training_question_of_the_evaluated_split_is_refused() -> None:
    evaluated = [question(7, "How many  museums are there?")]
    with pytest.raises(
        ConfigurationError, match=r'1 of the training questions are in .* dev: 3 \("how many museums'
    ):
        refuse_evaluated([question(3, "how many museums are there")], evaluated, "dev")
    refuse_evaluated([question(3, "how many museums are there", "zoo")], evaluated, "dev")


def test_what_is_only_like_the_evaluated_split_is_left_out() -> None:
    training = [question(1, "How many?", "zoo"), question(2, "Which?"), question(3, "Why?")]
    gold = {"1": "SELECT 1", "2": "select  X ;", "3": "SELECT 3"}
    from tasks.benchmarks.fingerprint import sql_fingerprint

    left = without_likeness(training, gold, [question(9, "how many")], {sql_fingerprint("SELECT x")})
    assert left == (training[2],)


@given(st.lists(st.integers(0, 10_000), unique=True, max_size=60), st.floats(0, 0.9))
def test_a_question_is_on_one_side_whatever_else_there_is(numbers: list[int], share: float) -> None:
    pairs = [pair(number, question=f"q{number // 2}") for number in numbers]
    split = hold_out(pairs, share)
    assert sorted([*split.training, *split.held_out], key=pairs.index) == pairs
    sides = [{one.question for one in side} for side in (split.training, split.held_out)]
    assert sides[0].isdisjoint(sides[1])
    assert all(hold_out([one], share).held_out == (one,) for one in split.held_out)


def test_about_the_share_is_held_out_and_none_if_none_is_wanted() -> None:
    pairs = [pair(number) for number in range(2000)]
    assert 60 < len(hold_out(pairs, 0.05).held_out) < 140
    assert hold_out(pairs, 0).held_out == ()


def test_judging_by_what_was_trained_on_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"1 of the pairs to judge by .*questions 2\)"):
        refuse_trained([pair(1), pair(2)], [pair(2), pair(3)])
    refuse_trained([pair(1)], [pair(3)])

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.stages.sea_sql import read_continuation
from tests.support.pairs import Pair, read_pairs

CASES = read_pairs(Path(__file__).parent / "fixtures" / "continuation.txt")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_reply_to_a_prompt_that_ends_with_select(case: Pair) -> None:
    assert (read_continuation(case.given, "sqlite") or "none") == case.expected


@given(st.text(max_size=60))
def test_no_reply_is_too_odd_to_be_read(text: str) -> None:
    found = read_continuation(text, "sqlite")
    assert found is None or found.strip()

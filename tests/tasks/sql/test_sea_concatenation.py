from pathlib import Path

import pytest

from tasks.sql.rewriting import without_concatenation
from tests.support.pairs import Pair, read_pairs

CASES = read_pairs(Path(__file__).parent / "fixtures" / "concatenation.txt")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_concatenated_columns_are_taken_apart(case: Pair) -> None:
    assert without_concatenation(case.given, "sqlite") == case.expected

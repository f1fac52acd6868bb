"""Skeletons by text pairs, and what holds for all of them."""

import json
from pathlib import Path

import pytest

from tasks.sql.skeleton import skeleton
from tests.support.pairs import Pair, read_pairs

CASES = read_pairs(Path(__file__).parent / "fixtures" / "skeleton.txt")


@pytest.mark.parametrize("pair", CASES, ids=[case.title for case in CASES])
def test_skeletons_hold_structure_and_no_name_or_value(pair: Pair) -> None:
    assert str(skeleton(pair.given, "sqlite")) == pair.expected


def test_every_real_gold_has_a_skeleton_free_of_names_and_strings(shared_data: Path) -> None:
    questions = json.loads((shared_data / "bird" / "dev.json").read_text())
    for question in questions[::5]:
        found = skeleton(question["SQL"], "sqlite")
        assert found is not None
        assert "'" not in found
        assert "`" not in found
        assert "." not in found

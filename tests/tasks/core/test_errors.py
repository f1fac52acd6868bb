"""The errors that a person can mend."""

import pickle

import pytest

from tasks.core.errors import BackboneError, did_you_mean


@pytest.mark.parametrize(("transient", "fatal"), [(True, False), (False, True)])
def test_a_backbones_error_survives_being_kept(transient: bool, fatal: bool) -> None:
    kept = pickle.loads(pickle.dumps(BackboneError("no answer", transient=transient, fatal=fatal)))
    assert (str(kept), kept.transient, kept.fatal) == ("no answer", transient, fatal)


@pytest.mark.parametrize(
    ("wrong", "valid", "said"),
    [
        ("seleciton", ["selection", "correction"], 'Did you mean "selection"?'),
        ("xyz", ["b", "a"], "Valid names: a, b."),
        ("xyz", [], "There are none."),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest_or_with_all(
    wrong: str, valid: list[str], said: str
) -> None:
    assert did_you_mean(wrong, valid) == said

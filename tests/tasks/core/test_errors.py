"""The errors that a person can mend."""

import pickle
from pathlib import Path

import pytest

from tasks.core.errors import BackboneError, did_you_mean, first_problem
from tests.support.in_process import CommandsHere


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


def test_what_is_wrong_with_a_file_is_said_without_number_and_path(tmp_path: Path) -> None:
    """Messages name the file themselves; `[Errno 21]` and the quoted path beside it say nothing more."""
    with pytest.raises(OSError, match="Errno") as caught:
        tmp_path.read_text(encoding="utf-8")
    assert first_problem(caught.value) == "Is a directory"
    assert first_problem(OSError("the disk went away")) == "the disk went away"
    assert first_problem(ValueError("not a number")) == "not a number"


@pytest.mark.parametrize(
    "arguments",
    [
        ("finetune", "train", "--pairs", "missing.jsonl", "--output", "out"),
        ("export", "/dev/null", "--overwrite"),
        ("nights", "deploy", "/proc/self/mem"),
    ],
    ids=" ".join,
)
def test_no_message_shows_the_number_of_an_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """These files are missing, a device and unreadable."""
    ran = CommandsHere(tmp_path).run(*arguments)
    assert ran.code == 2
    assert "Errno" not in ran.err

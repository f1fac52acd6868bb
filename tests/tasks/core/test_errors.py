"""The errors that a person can mend."""

import pickle
from pathlib import Path

import pytest

from flows.prefect.stage_results import open_results
from tasks.core.errors import BackboneError, ConfigurationError, did_you_mean, first_problem
from tasks.settings.home import Home
from tests.support.in_process import CommandsHere


@pytest.mark.parametrize(("transient", "fatal"), [(True, False), (False, True)])
def test_a_backbones_error_survives_being_kept(transient: bool, fatal: bool) -> None:
    kept = pickle.loads(pickle.dumps(BackboneError("no answer", transient=transient, fatal=fatal)))
    assert (str(kept), kept.transient, kept.fatal) == ("no answer", transient, fatal)


@pytest.mark.parametrize(("wrong", "valid", "said"), [
    ("seleciton", ["selection", "correction"], 'Did you mean "selection"?'),
    ("xyz", ["b", "a"], "Valid names: a, b."),
    ("xyz", [], "There are none."),
])  # fmt: skip
def test_a_wrong_name_gets_the_nearest_or_all(wrong: str, valid: list[str], said: str) -> None:
    assert did_you_mean(wrong, valid) == said


def test_what_is_wrong_with_a_file_is_said_without_number_and_path(tmp_path: Path) -> None:
    """Messages name the file themselves; `[Errno 21]` and the quoted path beside it say nothing more."""
    with pytest.raises(OSError, match="Errno") as caught:
        tmp_path.read_text(encoding="utf-8")
    assert first_problem(caught.value) == "Is a directory"
    assert first_problem(OSError("the disk went away")) == "the disk went away"
    assert first_problem(ValueError("not a number")) == "not a number"
    with pytest.raises(UnicodeDecodeError) as undecodable:
        "Zürich".encode("latin-1").decode()
    assert first_problem(undecodable.value) == "it is not UTF-8 (byte 1 is 0xfc): save it as UTF-8"


def test_a_place_of_stage_results_that_is_no_folder_is_said_without_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_STAGES", "/dev/null")
    with pytest.raises(ConfigurationError, match=r"kept in /dev/null: Not a directory\.") as caught:
        open_results(Home(tmp_path))
    assert "Errno" not in str(caught.value)


@pytest.mark.parametrize("arguments", [
    ("finetune", "train", "--pairs", "missing.jsonl", "--output", "out"),
    ("export", "/dev/null", "--overwrite"),
    ("nights", "deploy", "/proc/self/mem"),
], ids=" ".join)  # fmt: skip
def test_no_message_shows_the_number_of_an_error(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """These files are missing, a device and unreadable."""
    ran = CommandsHere(tmp_path).run(*arguments)
    assert ran.code == 2
    assert "Errno" not in ran.err

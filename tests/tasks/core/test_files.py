"""Files written whole or not at all."""

from pathlib import Path

import pytest

from tasks.core.files import atomic_create, atomic_write


def test_the_file_is_replaced_when_the_block_ends(tmp_path: Path) -> None:
    file = tmp_path / "new" / "answers.json"
    for text in ("first", "second"):
        with atomic_write(file) as draft:
            draft.write_text(text)
            assert not file.exists() or file.read_text() != text
        assert file.read_text() == text
    assert list(file.parent.iterdir()) == [file]


def test_a_failed_block_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "answers.json"
    file.write_text("whole")
    with pytest.raises(RuntimeError), atomic_write(file) as draft:
        draft.write_text("ha")
        raise RuntimeError
    assert file.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [file]


def test_others_may_read_the_file_as_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with atomic_write(tmp_path / "written") as draft:
        draft.touch()
    assert (tmp_path / "written").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_file_that_another_process_creates_meanwhile_stays(tmp_path: Path) -> None:
    file = tmp_path / "new" / "store.db"
    with atomic_create(file) as draft:
        draft.write_text("first")
    with atomic_create(file) as draft:
        draft.write_text("second")
    assert file.read_text() == "first"
    assert list(file.parent.iterdir()) == [file]


def test_without_links_a_file_is_created_by_renaming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    file = tmp_path / "store.db"
    for text in ("first", "second"):
        with atomic_create(file) as draft:
            draft.write_text(text)
    assert file.read_text() == "first"
    assert list(tmp_path.iterdir()) == [file]

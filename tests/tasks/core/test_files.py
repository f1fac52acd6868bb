"""Files written whole or not at all."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from flows.evaluate.finetuning import read_pairs
from tasks.backbone.recordings import read_recording
from tasks.benchmarks.layouts import SpiderLayout
from tasks.benchmarks.predictions.formats import read_predictions
from tasks.benchmarks.predictions.trajectory_file import read_trajectories
from tasks.benchmarks.rows import files_digest, read_text
from tasks.benchmarks.selection import select
from tasks.core.errors import CrosscheckError
from tasks.core.files import atomic_create, atomic_write
from tasks.database.engines.duckdb import files_of
from tasks.settings.choices import QuestionSelection
from tasks.settings.load import read_yaml


def test_the_file_is_replaced_when_the_block_ends(tmp_path: Path) -> None:
    file = tmp_path / "new" / "answers.json"
    for text in ("first", "second"):
        with atomic_write(file) as draft:
            draft.write_text(text)
            assert not file.exists() or file.read_text() != text
        assert file.read_text() == text
    with pytest.raises(RuntimeError), atomic_write(file) as draft:
        draft.write_text("ha")
        raise RuntimeError
    assert file.read_text() == "second", "a failed block leaves the file as it was"
    assert list(file.parent.iterdir()) == [file]
    (tmp_path / "plain").touch()
    assert file.stat().st_mode == (tmp_path / "plain").stat().st_mode, "others may read it as any new file"


def refuse_links(self: Path, target: Path) -> None:
    raise OSError


@pytest.mark.parametrize("link", [Path.hardlink_to, refuse_links], ids=["by a link", "by renaming"])
def test_a_file_that_another_process_creates_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: Callable[[Path, Path], None]
) -> None:
    monkeypatch.setattr(Path, "hardlink_to", link)
    file = tmp_path / "new" / "store.db"
    for text in ("first", "second"):
        with atomic_create(file) as draft:
            draft.write_text(text)
    assert file.read_text() == "first"
    assert list(file.parent.iterdir()) == [file]


def test_hidden_files_are_neither_databases_nor_questions_nor_predictions(tmp_path: Path) -> None:
    """As a ZIP file of macOS leaves them beside each file: `._name`."""
    folder = tmp_path / "shop"
    folder.mkdir()
    for name in ("shop.sqlite", "other.sqlite", "t.csv", "0.sql"):
        for written in (name, f"._{name}"):
            (folder / written).write_text("SELECT 1")
    assert SpiderLayout().suite_paths(tmp_path, "shop") == (folder / "other.sqlite",)
    assert files_of(folder) == [folder / "t.csv"]
    assert [entry.question_id for entry in read_predictions(folder).entries] == ["0"]


def test_a_pipe_is_read_once_and_only_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = tmp_path / "predictions"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=('{"0": "SELECT 1", "1": "SELECT 2"}',))
    writer.start()
    predictions = read_predictions(pipe)
    writer.join()
    assert [entry.question_id for entry in predictions.entries] == ["0", "1"]
    assert predictions.sha256 == files_digest([pipe]) != hashlib.sha256(b"").hexdigest()
    monkeypatch.setattr("tasks.core.files.MAX_PIPE", 8)
    endless = tmp_path / "endless"
    os.mkfifo(endless)
    writer = Thread(target=endless.write_text, args=("123456789",))
    writer.start()
    with pytest.raises(CrosscheckError, match="the pipe has more than 8 bytes"):
        read_predictions(endless)
    writer.join()


def test_a_file_without_end_to_speak_of_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    with path.open("wb") as file:
        file.truncate(20 << 30)
    with pytest.raises(CrosscheckError, match=r"the file has more than 2,147,483,648 bytes"):
        read_predictions(path)


def test_a_device_is_no_file_that_is_read(tmp_path: Path) -> None:
    path = tmp_path / "predictions.json"
    path.symlink_to("/dev/zero")
    readers = (
        read_text,
        read_predictions,
        lambda path: files_digest([path]),
        read_yaml,
        read_recording,
        read_pairs,
        lambda path: select([], QuestionSelection(questions=f"@{path}")),
        read_trajectories,
    )
    for read in readers:
        with pytest.raises(CrosscheckError, match="it is a device or a pipe, not a file"):
            read(path)

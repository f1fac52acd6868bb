"""`crosscheck list`, and what a command says of a bug."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command_line import ROOT, Ran

Run = Callable[..., Ran]


def test_the_list_names_every_file_with_its_description(run_here: Run) -> None:
    everything = run_here("list", "--json").json
    for kind in ("benchmarks", "backbones", "pipelines"):
        assert set(everything[kind]) == {path.stem for path in (ROOT / "conf" / kind).glob("*.yaml")}
        assert all(everything[kind].values()), f"one of the {kind} has no description"
    shown = run_here("list", "backbones").out.splitlines()
    assert shown[0] == "backbones"
    assert any(line.startswith("  offline ") for line in shown)
    assert run_here("list", "models").code == 2


def test_a_broken_file_does_not_hide_the_others_from_the_list(
    run_here: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in ("benchmarks", "backbones", "pipelines"):
        (tmp_path / "conf" / kind).mkdir(parents=True)
    shutil.copy(ROOT / "conf/backbones/offline.yaml", tmp_path / "conf/backbones")
    (tmp_path / "conf/backbones/mine.yaml").write_text("a: [", encoding="utf-8")
    monkeypatch.setenv("CROSSCHECK_CONF", str(tmp_path / "conf"))
    listed = run_here("list")
    assert listed.code == 0
    assert "mine     cannot be read:" in listed.out
    assert "  offline  " in listed.out
    (tmp_path / "conf/backbones/mine.yaml").unlink()
    (tmp_path / "conf/backbones/offline.yaml").unlink()
    assert run_here("list").out == "benchmarks\nbackbones\npipelines\n"


def test_a_bug_is_a_sentence_and_its_traceback_is_in_the_log(
    run_here: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Path:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("tasks.settings.home.find_conf", broken)
    ran = run_here("list")
    assert ran.code == 70
    assert "internal error (ZeroDivisionError: a bug)" in ran.err
    assert "Traceback" not in ran.err
    log = tmp_path / "home" / "crosscheck.log"
    assert str(log) in ran.err
    assert "ZeroDivisionError: a bug" in log.read_text(encoding="utf-8")

    monkeypatch.setenv("CROSSCHECK_HOME", os.devnull)
    nowhere = run_here("list")
    assert nowhere.code == 70
    assert "Traceback" in nowhere.err, "without a working folder the details have no other place"

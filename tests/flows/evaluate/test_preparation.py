"""Preparation reads the files as they are when it is called."""

import json
from pathlib import Path

import pytest

from flows.evaluate.preparation import prepare
from flows.runtime.control import Progress
from tasks.core.errors import DataError
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice
from tests.support.own_benchmark import OwnBenchmark


def test_missing_files_are_said_before_missing_training_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    choice = EvaluationChoice(
        benchmark="bird-dev",
        backbone="offline",
        pipeline="few-shot",
        overrides=["benchmark.train=null"],
        data=str(tmp_path),
    )
    with pytest.raises(DataError, match=r"dev\.json"):
        prepare(evaluation_settings(choice), Progress())
    (tmp_path / "bird" / "dev_databases").mkdir(parents=True)
    for name in ("dev.json", "dev_tables.json"):
        (tmp_path / "bird" / name).touch()
    with pytest.raises(DataError, match="no training questions"):
        prepare(evaluation_settings(choice), Progress())
    assert not (tmp_path / "home" / "mlflow.db").exists(), "nothing slow came before"


def test_files_that_change_within_one_process_are_read_anew(
    own_benchmark: OwnBenchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROSSCHECK_HOME", str(tmp_path / "home"))
    settings = evaluation_settings(
        EvaluationChoice(
            benchmark=str(own_benchmark.file),
            backbone="offline",
            pipeline="zero-shot",
            data=str(own_benchmark.folder.parent),
            limit=2,
        )
    )
    first = prepare(settings, Progress())
    file = own_benchmark.folder / "dev.json"
    questions = json.loads(file.read_text(encoding="utf-8"))
    questions[0]["question"] = "Is this another question?"
    file.write_text(json.dumps(questions), encoding="utf-8")

    second = prepare(settings, Progress())
    assert first.questions[0].text != second.questions[0].text == "Is this another question?"

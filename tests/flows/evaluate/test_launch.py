"""What runs beside an evaluation: imports in a thread, and a flow whose end Prefect cannot be told."""

import os
from typing import Any, cast

import httpx
import pytest

from flows.evaluate.run import keeping_result
from flows.evaluate.runner import QuestionInputs, QuestionRunner, Tools
from flows.runtime.control import Control, Progress
from flows.runtime.process import import_in_background
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.offline import OfflineBackbone
from tasks.core.errors import CrosscheckError
from tasks.core.records import Question
from tasks.database.sandbox.workers import SqlWorkers
from tasks.results.mlflow import store
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice


class Steps(Progress):
    def __init__(self) -> None:
        self.texts: list[str] = []

    def step(self, text: str) -> None:
        self.texts.append(text)


@pytest.mark.parametrize(("logged", "message", "shown"), [
    (None, "All connection attempts failed", ""),
    ("the result", "All connection attempts failed", "All connection attempts failed"),
    ("the result", "", "ConnectError"),
])  # fmt: skip
def test_the_result_of_a_logged_run_survives_a_server_that_is_gone(
    logged: Any, message: str, shown: str
) -> None:
    control = Control(Steps(), result="of an earlier run")

    def run() -> None:
        with keeping_result(control):
            control.result = logged
            raise httpx.ConnectError(message)

    if logged is None:
        with pytest.raises(CrosscheckError, match=r"any more .* run the same command"):
            run()
        assert cast(Steps, control.progress).texts == []
    else:
        run()
        assert control.result == logged
        (note,) = cast(Steps, control.progress).texts
        assert f"does not answer any more ({shown})" in note


def test_a_variable_that_mlflow_removes_is_gone_before_a_thread_imports_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, there = "_MLFLOW_TELEMETRY_SESSION_ID", []
    monkeypatch.setenv(name, "of a program that uses MLflow")
    monkeypatch.setattr(store, "import_store", lambda: there.append(name in os.environ))
    import_in_background.__wrapped__().join()
    assert there == [False]


async def test_a_question_that_cannot_be_prepared_is_a_failure_and_no_exception() -> None:
    settings = evaluation_settings(
        EvaluationChoice(benchmark="demo", backbone="offline", pipeline="zero-shot")
    )
    tools = Tools(MeteredBackbone(OfflineBackbone()), SqlWorkers(1))
    runner = QuestionRunner(settings, QuestionInputs({}, {}), tools)
    question = Question("1", "Which museums are there?", "museum")
    outcome = await runner.run(runner.question_run(question))
    assert outcome.failure is not None and outcome.failure.kind == "internal_error"
    assert outcome.question_id == "1"
    assert await runner.restore(question) is None

"""What deployed flows share: settings from names, a place to log, and a mark for those that are killed."""

import os
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Any

from prefect import tags
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Failed

from flows.deployed.forms import Evaluation
from flows.orchestration.crashed_runs import TAG, watch_over_flow_runs
from flows.orchestration.killed_runs import clear_leftovers, note_run, registered
from flows.orchestration.settings import DEPLOYED, apply, local_settings
from flows.orchestration.storage import use_stage_storage
from flows.report.result import Evaluated
from flows.runtime.control import Control, Interrupted, controlled_by
from flows.runtime.logs import logging_to
from flows.runtime.signals import stopping_on_signals
from tasks.errors import BackboneError, CrosscheckError
from tasks.settings.assemble import evaluation_settings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home, find_home

if "PREFECT__FLOW_RUN_ID" in os.environ:
    # A worker's process for one flow run. Where results go is decided when the flow begins, so it is said before.
    apply({**local_settings(find_home()), **DEPLOYED})
    use_stage_storage(find_home())


def settings_of(evaluation: Evaluation, *, epoch: str | None = None) -> EvaluationSettings:
    """Return the settings that the names of a form stand for.

    Args:
        evaluation: the form.
        epoch: where given, no reply of another epoch is reused.

    Raises:
        ConfigurationError: an unknown name, key or value, in the user's words.
    """
    settings = evaluation_settings(
        benchmark=evaluation.benchmark,
        backbone=evaluation.backbone,
        pipeline=evaluation.pipeline,
        overrides=evaluation.overrides,
        limit=evaluation.limit,
        questions=evaluation.questions,
        data=evaluation.data,
        shards=evaluation.shards,
    )
    if epoch is None:
        return settings
    return settings.model_copy(update={"backbone": settings.backbone.model_copy(update={"epoch": epoch})})


async def open_home() -> Home:
    """Return the worker's working folder, with what earlier, killed runs left there marked as ended.

    From now on Prefect itself does so with those that other machines leave.
    """
    home = find_home()
    await clear_leftovers(home)
    await watch_over_flow_runs()
    return home


async def in_words(work: Awaitable[State[Any]]) -> State[Any]:
    """Do a deployed flow's work; what its user should read becomes the message of its state, without a traceback."""
    try:
        return await work
    except Interrupted as signal:
        return Cancelled(message=str(signal))
    except CrosscheckError as error:
        return Failed(message=str(error), data=error)


@contextmanager
def attended(home: Home, control: Control, **ids: str) -> Iterator[None]:
    """Run evaluations inside of a deployed flow.

    Args:
        home: the working folder.
        control: the surroundings of every evaluation in the block.
        ids: what to mark as ended should this process be killed.
    """
    with (
        logging_to(home),
        controlled_by(control),
        stopping_on_signals(control),
        registered(home),
        tags(TAG),
    ):
        note_run(**ids)
        yield


def told(found: Evaluated) -> str:
    """Return an evaluation in one line: the message of its flow run.

    Raises:
        BackboneError: not every question was asked.
    """
    if found.fatal:
        raise BackboneError(found.fatal, transient=True, fatal=True)
    ex = found.report.ex
    score = (
        "nothing to score" if ex.value is None else f"EX {100 * ex.value:.2f} % ({ex.correct:g}/{ex.total:g})"
    )
    return f"{score}; {found.mlflow_page}"

"""The deployed flows `evaluate` and `rerun`, which a user starts in Prefect's form, and what deployed flows share."""

import asyncio
import os
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prefect import flow, tags
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed

from flows.evaluate.flow import evaluation
from flows.evaluate.forms import EvaluationForm, Matrix, RerunForm
from flows.evaluate.rerun import plan_rerun, rerun
from flows.prefect.automations import TAG, notify_of_nights, watch_over_flow_runs
from flows.prefect.flow_runs import final_state, optional, result_of
from flows.prefect.killed_runs import clear_leftovers, registered
from flows.prefect.settings import DEPLOYED, DEPLOYED_HOME, apply, local_settings
from flows.runtime.control import Control, Interrupted
from flows.runtime.folder_use import watched
from flows.runtime.process import collect_garbage_seldom, forbid_core_dumps
from flows.runtime.signals import logging_to, stopping_on_signals
from flows.runtime.summary import mlflow_ui
from tasks.core.errors import BackboneError, ConfigurationError, CrosscheckError
from tasks.core.registry import is_in_file
from tasks.results.run_record import KINDS, RunRecord
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice, Labels
from tasks.settings.evaluation import EvaluationSettings, RerunSettings
from tasks.settings.home import Home, find_conf, find_data, find_home
from tasks.settings.load import load_settings


def use_deployed_home() -> None:
    """Use the deployment's working folder where CROSSCHECK_HOME is not set, if this machine has that folder."""
    home = os.environ.get(DEPLOYED_HOME, "")
    if home and not os.environ.get("CROSSCHECK_HOME") and Path(home).is_dir():
        os.environ["CROSSCHECK_HOME"] = home


if "PREFECT__FLOW_RUN_ID" in os.environ:
    # A worker's process for one flow run.
    use_deployed_home()
    forbid_core_dumps()
    collect_garbage_seldom()
    apply({**local_settings(find_home()), **DEPLOYED})


def settings_of(evaluation: EvaluationForm, *, epoch: str | None = None) -> EvaluationSettings:
    """Return the settings of a form; with an epoch, only cached replies of that epoch are used."""
    fields = evaluation.model_dump(exclude=set(Labels.model_fields))
    settings = evaluation_settings(EvaluationChoice(**fields))
    if epoch is None:
        return settings
    return settings.model_copy(update={"backbone": settings.backbone.model_copy(update={"epoch": epoch})})


def names_of(evaluation: EvaluationForm) -> tuple[str, str, str]:
    """Return the names of benchmark, backbone and pipeline under which the run of a form is stored.

    Where settings cannot be read, the name is that of their file without `.yaml`, or the attribute of
    `file.py:attribute`.
    """

    def name_of(kind: str) -> str:
        name: str = getattr(evaluation, kind)
        try:
            return str(load_settings(find_conf(), kind, name, evaluation.overrides).name)
        except CrosscheckError:
            return name.rpartition(":")[2] if is_in_file(name) else Path(name).name.removesuffix(".yaml")

    benchmark, backbone, pipeline = map(name_of, KINDS)
    return benchmark, backbone, pipeline


def named_evaluations(matrix: Matrix) -> dict[tuple[str, str, str], EvaluationForm]:
    """Return the evaluations of a matrix by the names of benchmark, backbone and pipeline; no two may share them."""
    evaluations: dict[tuple[str, str, str], EvaluationForm] = {}
    for form in matrix.evaluations:
        names = names_of(form)
        if earlier := evaluations.get(names):
            pairs = [(getattr(earlier, kind), getattr(form, kind)) for kind in KINDS]
            files = [f"{first} and {second}" for first, second in pairs if first != second]
            advice = "Name it once."
            if files:  # different files of settings have the same name in them
                advice = f"Write another name into one of the files ({'; '.join(files)}), as `name: ...`."
            raise ConfigurationError(
                f'Two evaluations of the matrix are named "{" | ".join(names)}". {advice}'
            )
        evaluations[names] = form
    return evaluations


async def open_home() -> Home:
    """Return the worker's working folder, and mark runs killed there as ended; Prefect's automation marks others."""
    if (deployed := os.environ.get(DEPLOYED_HOME)) and not os.environ.get("CROSSCHECK_HOME"):
        raise ConfigurationError(
            f"This worker has no CROSSCHECK_HOME, and the working folder of the deployment, {deployed}, is not on its "
            "machine. Set CROSSCHECK_HOME where the worker is started."
        )
    home = find_home()
    await clear_leftovers(home)
    with optional("Prefect does not watch over flow runs"):
        await watch_over_flow_runs()
    with optional("No message is sent after a nightly run"):
        await notify_of_nights()
    return home


async def as_prefect_state(work: Awaitable[State[Any]]) -> State[Any]:
    """Await a deployed flow's work and return its state; errors of users and disks become a message."""
    try:
        return await work
    except Interrupted as signal:
        return Cancelled(message=str(signal))
    except CrosscheckError as error:
        return Failed(message=str(error), data=error)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        advice = "Check that the disk has space and can be written; then run it again."
        return Failed(message=f"{error.strerror or error}{where}. {advice}", data=error)


@contextmanager
def deployed_run(home: Home, control: Control, **ids: str) -> Iterator[None]:
    """Run evaluations inside of a deployed flow.

    `ids` are further flow runs to mark as crashed if this process is killed: `nightly` of a nightly run.
    """
    with (
        watched(home),
        logging_to(home),
        stopping_on_signals(control, asyncio.get_running_loop()),
        registered(home, control),
        tags(TAG),
    ):
        control.register(**ids)
        yield


def ended(record: RunRecord, home: Home) -> State[Any]:
    """Return the final state of a deployed flow run: score, and page in MLflow."""
    if record.fatal:
        raise BackboneError(record.fatal, transient=True, fatal=True)
    page = mlflow_ui(home, record.mlflow).page
    state: State[Any] = final_state(record, f"{record.in_words}; {page}")
    return state


DEMO = EvaluationForm()
ERRORS = RerunForm()


def _flow_run_name() -> str:
    return " | ".join(names_of(flow_run.parameters.get("evaluation", DEMO)))


@flow(name="evaluate-by-name", flow_run_name=_flow_run_name, persist_result=False)
async def evaluate_by_name(evaluation: EvaluationForm = DEMO) -> State[Any]:
    """Take every question of a benchmark through a pipeline, score each stage, and log the run to MLflow.

    Fails if the backbone stops answering; answers so far are kept, and another run with the same parameters
    continues.

    Args:
        evaluation: What is evaluated.
    """
    return await as_prefect_state(_evaluate(evaluation))


async def _evaluate(form: EvaluationForm) -> State[Any]:
    home = await open_home()
    control = Control(tags=form.as_tags)
    with deployed_run(home, control):
        record = await result_of(await evaluation(control)(settings_of(form)))
    return ended(record, home)


@flow(name="rerun-by-name", flow_run_name="rerun {choice.run}", persist_result=False)
async def rerun_by_name(choice: RerunForm = ERRORS) -> State[Any]:
    """Ask some questions of a run again, and log a new run with the answers to all of them.

    Args:
        choice: The run and the questions to repeat.
    """
    return await as_prefect_state(_rerun(choice))


async def _rerun(choice: RerunForm) -> State[Any]:
    home = await open_home()
    options = choice.model_dump(exclude={"data", *Labels.model_fields})
    settings = RerunSettings(**options, data=str(find_data(choice.data)), home=str(home.path))
    plan = plan_rerun(settings)
    if not plan.again:
        return Completed(message=f"Run {plan.parent.run_id} has no question to repeat ({plan.selection}).")
    control = Control(tags=choice.as_tags)
    with deployed_run(home, control):
        record = await result_of(await rerun(plan, control)(settings))
    return ended(record, home)

"""Runs flows from the command line: Prefect's server, Ctrl-C, logs, and what a killed run left over."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from flows.orchestration.flow_runs import check_shards
from flows.orchestration.killed_runs import clear_leftovers, registered
from flows.orchestration.server import LocalServer
from flows.orchestration.settings import CLIENT, apply
from flows.questions.preparation import prepare
from flows.report.result import Evaluated
from flows.runtime.budget import Budget
from flows.runtime.control import Control, Progress, controlled_by
from flows.runtime.logs import logging_to
from flows.runtime.signals import stopping_on_signals
from tasks.backbone.factory import check_backbone
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home

if TYPE_CHECKING:
    from flows.descriptions.flow import Prepared
    from flows.finetuning.pairs import Pairs
    from flows.rerun.plan import RerunPlan

T = TypeVar("T")


def run_evaluation(
    settings: EvaluationSettings,
    progress: Progress,
    *,
    tags: Mapping[str, str] | None = None,
    budget: Budget | None = None,
) -> Evaluated:
    """Run one evaluation to its end and return what came of it.

    Args:
        settings: what is evaluated.
        progress: told how far it is.
        tags: what else the run is known by in MLflow.
        budget: what may be spent; None without a limit.

    Raises:
        CrosscheckError: in the user's words, what is wrong and how to mend it.
        Interrupted: the user stopped it; what was answered is kept.
    """

    def evaluate() -> Any:
        from flows.evaluation.flow import evaluate

        return evaluate(settings, return_state=True)

    check_shards(settings)
    control = Control(progress, tags=tags or {}, budget=budget)
    evaluated: Evaluated = _run(settings, progress, evaluate, control)
    return evaluated


def run_rerun(plan: "RerunPlan", progress: Progress) -> Evaluated:
    """Ask some questions of an earlier run again; raises as `run_evaluation` does."""

    def rerun() -> Any:
        from flows.rerun.flow import rerun

        return rerun(plan.asked_for, return_state=True)

    evaluated: Evaluated = _run(plan.settings, progress, rerun)
    return evaluated


def run_training_pairs(
    settings: EvaluationSettings,
    evaluated: BenchmarkSettings,
    output: Path,
    held_out: float,
    progress: Progress,
) -> "Pairs":
    """Write training pairs for SEA-SQL's eliminator; raises as `run_evaluation` does."""

    def finetune_dataset() -> Any:
        from flows.finetuning.pairs import finetune_dataset

        return finetune_dataset(settings, evaluated, str(output), held_out, return_state=True)

    pairs: Pairs = _run(settings, progress, finetune_dataset)
    return pairs


def run_preparation(settings: EvaluationSettings, progress: Progress) -> "Prepared":
    """Prepare a benchmark; raises as `run_evaluation` does."""

    def prepare_flow() -> Any:
        from flows.descriptions.flow import prepare

        return prepare(settings, return_state=True)

    prepared: Prepared = _run(settings, progress, prepare_flow)
    return prepared


def _run(
    settings: EvaluationSettings,
    progress: Progress,
    flow: Callable[[], Awaitable[Any]],
    control: Control | None = None,
) -> Any:
    """Run a flow against Prefect.

    Its server starts in the background first, since it takes the longest; whatever is wrong with the settings,
    files or keys is found meanwhile, before anything is asked or recorded.
    """
    from flows.orchestration.storage import use_stage_storage

    home = Home(Path(settings.home))
    check_backbone(
        settings.backbone
    )  # a forgotten key is the commonest mistake: say so before a server starts
    apply(CLIENT)
    with logging_to(home), LocalServer(home) as server:
        prepare(settings, progress)
        progress.step("Waiting for Prefect's server")
        server.wait()
        use_stage_storage(home)
        return asyncio.run(_under_control(home, control or Control(progress), flow))


async def _under_control(home: Home, control: Control, flow: Callable[[], Awaitable[Any]]) -> Any:
    await clear_leftovers(home)
    with controlled_by(control), stopping_on_signals(control), registered(home):
        state = await flow()
        result = await state.aresult(raise_on_failure=False)
    if isinstance(result, BaseException):
        raise result
    return result

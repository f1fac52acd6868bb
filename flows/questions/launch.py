"""Prefect for a command: server, signals, log, and cleanup of killed runs."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from flows.orchestration.flow_runs import check_shards
from flows.orchestration.killed_runs import clear_leftovers, registered
from flows.orchestration.server import LocalServer
from flows.orchestration.settings import CLIENT, apply
from flows.questions.preparation import Preparation, prepare
from flows.runtime.control import Control
from flows.runtime.logs import logging_to
from flows.runtime.signals import stopping_on_signals
from tasks.backbone.kinds.kind import check_backbone
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home


@dataclass(frozen=True)
class Launched:
    """Prepared evaluation, and an event loop for its flow.

    Attributes:
        preparation: the prepared evaluation.
        loop: `loop.run(evaluation(...)(settings))` runs a flow to its end and returns its result.
    """

    preparation: Preparation
    loop: asyncio.Runner


@contextmanager
def launched(
    settings: EvaluationSettings, control: Control, server: LocalServer | None = None
) -> Iterator[Launched]:
    """Prepare an evaluation, and provide Prefect for as long as the block lasts.

    The server starts in the background, while settings, files and keys are checked. Modules with flows are imported
    inside of the block, since Prefect reads its settings when it is imported.

    Args:
        settings: settings of the evaluation.
        control: progress, stop requests, tags and budget.
        server: Prefect's server; None: one is started, and stopped at the end of the block.

    Raises:
        CrosscheckError: what is wrong and what to do about it.
    """
    from flows.orchestration.storage import use_stage_storage

    home = Home(Path(settings.home))
    check_shards(settings)
    check_backbone(
        settings.backbone
    )  # finds the most frequent mistake, a missing key, before a server starts
    apply(CLIENT)
    with logging_to(home), nullcontext(server) if server else LocalServer(home) as prefect:
        preparation = prepare(settings, control.progress)
        control.progress.step("Waiting for Prefect's server")
        prefect.wait()
        control.own_server = not prefect.external
        use_stage_storage(home)
        with asyncio.Runner() as loop:
            loop.run(clear_leftovers(home))
            with stopping_on_signals(control, loop.get_loop()), registered(home, control):
                yield Launched(preparation, loop)

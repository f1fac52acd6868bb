"""Prefect for a command: server, signals, log, and cleanup of killed runs."""

import asyncio
import importlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flows.prefect.flow_runs import check_shards, import_engines
from flows.prefect.killed_runs import clear_leftovers, registered
from flows.prefect.server import LocalServer
from flows.prefect.settings import CLIENT, apply
from flows.runtime.control import Control
from flows.runtime.folder_use import watched
from flows.runtime.process import import_in_background, importing
from flows.runtime.signals import logging_to, stopping_on_signals
from tasks.backbone.endpoint.connection import import_client
from tasks.backbone.kinds.kind import check_backbone, kind_of
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home

if TYPE_CHECKING:
    from flows.evaluate.preparation import Preparation

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Launched:
    """Prepared evaluation, and an event loop for its flow."""

    preparation: "Preparation"  # the prepared evaluation
    loop: asyncio.Runner
    control: Control

    @contextmanager
    def keeping_result(self) -> Iterator[None]:
        """Suppress errors of Prefect once the run has been logged; its record is then `control.result`."""
        self.control.result = None
        try:
            yield
        except Exception as error:
            if self.control.result is None:
                raise
            log.warning("Prefect does not know that the run has ended: %s", error)
            self.control.progress.step(
                f"Prefect's server does not answer any more ({error}): it does not show the end of this run, which is "
                "complete and logged."
            )


@contextmanager
def launched(
    settings: EvaluationSettings,
    control: Control,
    server: LocalServer | None = None,
    *,
    flow: str = "",
    preparation: "Preparation | None" = None,
) -> Iterator[Launched]:
    """Prepare an evaluation, and provide Prefect for as long as the block lasts.

    The server starts in the background, while files are read and checked. It takes longest, so what it does not need is
    imported after its start. Modules with flows are imported inside of the block, since Prefect reads its settings when
    it is imported.

    Args:
        settings: settings of the evaluation.
        control: progress, stop requests, tags and budget.
        server: Prefect's server; None: one is started, and stopped at the end of the block.
        flow: module of the flow, which is imported while the server starts.
        preparation: what the settings' preparation found; None: it is made here.
    """
    home = Home(Path(settings.home))
    check_shards(settings)
    check_backbone(settings.backbone)  # the most frequent mistake, a missing key, before a server starts
    apply(CLIENT)
    with watched(home), logging_to(home), nullcontext(server) if server else LocalServer(home) as prefect:
        from flows.evaluate.preparation import prepare

        preparation = preparation or prepare(settings, control.progress)
        with importing():
            _import_while_waiting(settings, flow)
        control.progress.step("Waiting for Prefect's server")
        if not prefect.external:
            import_in_background()
        prefect.wait()
        control.own_server = not prefect.external
        _use_stage_storage(home)
        with asyncio.Runner() as loop:
            loop.run(clear_leftovers(home))
            with stopping_on_signals(control, loop.get_loop()), registered(home, control):
                yield Launched(preparation, loop, control)


def _use_stage_storage(home: Home) -> None:
    from flows.prefect.storage import use_stage_storage  # imports Prefect

    use_stage_storage(home)


def _import_while_waiting(settings: EvaluationSettings, flow: str) -> None:
    """Import what is needed once the server is healthy, which takes it seconds on another core."""
    import_engines()
    if kind_of(settings.backbone).paid:
        import_client()
    if flow:
        importlib.import_module(flow)

"""Runs an evaluation: what `crosscheck evaluate`, `crosscheck sweep` and the Python interface call."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.prefect.flow_runs import beginnings, check_shards, import_engines, reason_in, result_of
from flows.prefect.killed_runs import clear_leftovers, registered
from flows.prefect.server import LocalServer
from flows.prefect.settings import CLIENT, apply
from flows.runtime.control import Control
from flows.runtime.folder_use import find_running_servers, watched
from flows.runtime.process import import_in_background, importing
from flows.runtime.signals import logging_to, stopping_on_signals
from tasks.backbone.endpoint.connection import import_client
from tasks.backbone.kind import check_backbone, kind_of
from tasks.core.errors import CrosscheckError
from tasks.results.parameters import automatic_settings, flatten, stored_settings
from tasks.results.run_record import Kind, RunRecord
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.choices import HARMLESS
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home

if TYPE_CHECKING:
    from flows.evaluate.preparation import Preparation

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Launched:
    """Prepared evaluation, and an event loop for its flow."""

    preparation: "Preparation"
    loop: asyncio.Runner
    connect: Callable[[], None]  # imports Prefect and waits for its server, if that is left to do


@contextmanager
def launched(
    settings: EvaluationSettings,
    control: Control,
    server: LocalServer | None = None,
    preparation: "Preparation | None" = None,
    *,
    early: bool = False,
    later: bool = False,
) -> Iterator[Launched]:
    """Prepare an evaluation, and provide Prefect for as long as the block lasts: the given server, or one of its own.

    The server starts in the background, while files are read and checked. It takes longest, so what it does not need is
    imported after its start. With `early`, the block calls `connect` itself when it needs the server; with `later` too,
    the server starts only then. Modules with flows are imported inside, since Prefect reads its settings on import.
    """
    home = Home(Path(settings.home))
    check_shards(settings)
    check_backbone(settings.backbone)  # the most frequent mistake, a missing key, before a server starts
    apply(CLIENT)
    with (
        watched(home),
        logging_to(home),
        nullcontext(server) if server else LocalServer(home, later=later) as prefect,
    ):
        from flows.evaluate.preparation import prepare

        preparation = preparation or prepare(settings, control.progress)
        control.own_server = not prefect.external
        with importing():
            # With `later`, the evaluation may be restored, which needs no client.
            if kind_of(settings.backbone).paid and not later:
                import_client()
            import flows.evaluate.flow  # noqa: F401

        def connect() -> None:
            with importing():
                import_engines()
            if not prefect.external:
                import_in_background()
            prefect.wait(control)

        with asyncio.Runner() as loop:
            if not early:
                control.progress.step("Waiting for Prefect's server")
                connect()
                loop.run(clear_leftovers(home))
            with (
                stopping_on_signals(control, loop.get_loop()),
                registered(home, control),
                keeping_result(control),
            ):
                yield Launched(preparation, loop, connect)


@contextmanager
def keeping_result(control: Control) -> Iterator[None]:
    """Suppress errors of Prefect once the run has been logged; its record is then `control.result`.

    If a run ended without a result, the error that ended it is raised, not one of recording the end in Prefect.
    """
    control.result = None
    try:
        yield
    except Exception as error:
        if control.result is None:
            if reason := reason_in(error):
                raise reason from None
            raise
        log.warning("Prefect does not know that the run has ended: %s", error)
        control.progress.step(
            f"Prefect's server does not answer any more ({str(error) or type(error).__name__}): it does not show the "
            "end of this run, which is complete and logged."
        )


def find_known(
    settings: EvaluationSettings, control: Control
) -> "tuple[RunRecord | None, Preparation | None]":
    """Return the record of a finished run that is exactly an evaluation, and what was prepared to find out."""
    if not was_evaluated(settings):
        return None, None
    from flows.evaluate.identical_run import find_repeated, may_repeat
    from flows.evaluate.preparation import prepare

    if not may_repeat(settings):
        return None, None
    with logging_to(Home(Path(settings.home))):
        preparation = prepare(settings, control.progress, choose=False)
    control.progress.step("Looking for a finished run of the same settings, questions and code")
    repeated = find_repeated(preparation, control.tags)
    if repeated is None:
        preparation.choose()
    return repeated, preparation


def run_evaluation(
    settings: EvaluationSettings,
    control: Control,
    server: LocalServer | None = None,
    preparation: "Preparation | None" = None,
) -> RunRecord:
    """Evaluate, in the present thread; `server` and `preparation` are as in `launched`.

    `early`: questions are answered before Prefect's server is there. `similar`: an earlier run had these settings, so
    that all may be restored, and the server is started only if a stage has to run.
    """
    early = _may_begin_early(settings)
    replays = settings.record is not None or kind_of(settings.backbone).replays
    similar = early and not replays and (preparation is not None or was_evaluated(settings))
    with launched(settings, control, server, preparation, early=early, later=similar) as prefect:
        from flows.evaluate.flow import evaluate_early, evaluation_flow

        if early:
            evaluating = evaluate_early(prefect.preparation, control, prefect.connect, similar=similar)
            control.result = prefect.loop.run(evaluating)
        else:
            flow = evaluation_flow(control, prefect.preparation)
            for beginning in beginnings(control, prefect.connect):
                with beginning:
                    state = prefect.loop.run(flow(settings, return_state=True))
            control.result = prefect.loop.run(result_of(state))
    assert control.result is not None
    return control.result


def _may_begin_early(settings: EvaluationSettings) -> bool:
    """Return whether questions may be answered before Prefect's server answers: only if none runs already.

    Such a server shows the evaluation from its beginning, and is needed to mark a killed run as such.
    """
    home = Home(Path(settings.home))
    return (
        settings.shards == 1
        and not os.environ.get("PREFECT_API_URL")
        and not any(home.runs.glob("*.json"))
        and not find_running_servers(home)
    )


def was_evaluated(settings: EvaluationSettings) -> bool:
    """Return whether a finished run had these settings of backbone and pipeline, except those in `HARMLESS`."""
    kinds: tuple[Kind, ...] = ("backbone", "pipeline")
    current = stored_settings({kind: getattr(settings, kind).model_dump(mode="json") for kind in kinds})
    names = (settings.benchmark.name, settings.backbone.name, settings.pipeline.name)
    try:
        earlier = Warehouse(Home(Path(settings.home)).warehouse).settings_of_runs(*names)
    except CrosscheckError:  # the evaluation itself says what is wrong with it
        return False
    requested = flatten(current)
    ignored = automatic_settings(requested).union(HARMLESS)

    def deciding(flat: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in flat.items() if key not in ignored}

    return deciding(requested) in (deciding(flatten(run)) for run in earlier)

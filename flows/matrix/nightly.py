"""The `nightly` flow: evaluates a matrix and compares each run with its baseline."""

import asyncio
import datetime
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from flows.evaluate.deployment import (
    as_prefect_state,
    deployed_run,
    named_evaluations,
    open_home,
    settings_of,
)
from flows.evaluate.flow import evaluation_flow
from flows.evaluate.forms import Cleaning, EvaluationForm, Matrix, MayBeLeftOut
from flows.evaluate.preparation import Preparation, check_budget
from flows.evaluate.run import keeping_result
from flows.evaluate.working_folder import clean, in_words, open_folder
from flows.matrix.matrix import Cell, CellLimits
from flows.prefect.artifacts import prefect_page, show_markdown
from flows.prefect.automations import notify
from flows.prefect.flow_runs import async_beginnings, result_of
from flows.prefect.schedule import name_of, read_timetable
from flows.runtime.control import Control, Interrupted
from tasks.backbone.budget import Budget
from tasks.core.errors import ConfigurationError, CrosscheckError
from tasks.core.files import atomic_write_text
from tasks.core.outcome import STANDARD
from tasks.core.wording import next_time, percent_and_counts
from tasks.documents.html import html
from tasks.documents.markdown import markdown
from tasks.pages.lists import write_leaderboard
from tasks.pages.night import night_document
from tasks.results.leaderboard import leaderboard
from tasks.results.mlflow.store import find_store
from tasks.results.mlflow.tracker import log_night
from tasks.results.night import Night, NightEntry, all_nights, judge, write
from tasks.results.night_baseline import (
    Baselines,
    check_data,
    compared,
    current_pins,
    named_run,
    paid_before,
    pin_history,
    worse_runs,
)
from tasks.results.run_record import NIGHT
from tasks.results.warehouse.runs import Warehouse
from tasks.settings.choices import Gate, Keep
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.home import Home

log = logging.getLogger(__name__)

CONTINUES = "The nightly run continues under the same name with a higher budget_usd"


def night_limits(
    evaluations: Sequence[EvaluationSettings], finish_by: str | None, budget_usd: float | None
) -> CellLimits:
    """Return the limits of a nightly run, in equal shares for its evaluations."""
    check_budget(evaluations, budget_usd, "budget_usd")
    total = None if budget_usd is None else Budget(budget_usd, CONTINUES)
    if finish_by is None:
        return CellLimits(total, shares=[])  # with a list of shares, each evaluation gets one
    try:
        end = next_time(finish_by, datetime.datetime.now().astimezone())
    except ValueError:
        raise ConfigurationError(
            f'finish_by: "{finish_by}" is neither a time of day, 07:00, nor an ISO 8601 time.'
        ) from None
    if evaluations and all(settings.backbone.tier == STANDARD for settings in evaluations):
        raise ConfigurationError(
            "finish_by: all backbones of the matrix send their requests in the standard tier already. Set "
            "backbone.tier to flex or batch, or leave finish_by out."
        )
    return CellLimits(total, end, shares=[])


RESTART_S = 10.0
"""Seconds before an evaluation is begun again where Prefect's server does not answer."""

DEMO = Matrix()
GATE = Gate()
KEEP_ALL = Cleaning()


def _flow_run_name() -> str:
    return f"night {flow_run.parameters.get('night') or name_of(flow_run.scheduled_start_time)}"


@flow(name="nightly", flow_run_name=_flow_run_name, persist_result=False)
async def nightly(
    matrix: Matrix = DEMO,
    gate: Gate = GATE,
    *,
    ask_again: bool = False,
    night: Annotated[str | None, MayBeLeftOut()] = "",
    keep: Annotated[Cleaning | None, MayBeLeftOut()] = KEEP_ALL,
    finish_by: Annotated[str | None, MayBeLeftOut()] = "",
    budget_usd: Annotated[float | None, MayBeLeftOut()] = 0.0,
) -> State[Any]:
    """Evaluate every combination of a matrix, one after the other, and compare each with its baseline.

    Fails (red) only on a significant regression beyond the threshold, and on evaluations that are not completed or
    lack too many answers. Its state is "Amber" on a loss that is not proven, and on scores that decline.

    Args:
        matrix: Evaluations to run.
        gate: Thresholds for red and amber.
        ask_again: Whether to request new, paid replies in every nightly run, which detects changes of hosted models;
            else cached replies are reused, and only changes of Crosscheck, prompts and settings are detected.
        night: Name of the nightly run; empty: its scheduled time. A killed nightly run continues under the same
            name: with `ask_again`, its paid replies are reused.
        keep: Cleaning of the working folder after the nightly run, as `crosscheck clean`: what of old runs is kept.
        finish_by: Time by which it must end, "07:00" on the worker's machine or "07:00 Europe/Berlin". Requests to
            backbones of the tier "flex" or "batch" are sent in the standard tier while an evaluation would end after
            its share of the time; empty: no limit.
        budget_usd: Limit on the cost of its model calls in US dollars, in equal shares for the evaluations; 0: no
            limit.
    """
    # A parameter that is left out in a form is None or empty; both mean the same.
    return await as_prefect_state(
        _nightly(
            matrix,
            gate,
            night or name_of(flow_run.scheduled_start_time),
            ask_again=ask_again,
            keep=keep.keep if keep else None,
            finish_by=finish_by or None,
            budget_usd=budget_usd or None,
        )
    )


async def _nightly(
    matrix: Matrix,
    gate: Gate,
    name: str,
    *,
    ask_again: bool,
    keep: Keep | None,
    finish_by: str | None,
    budget_usd: float | None,
) -> State[Any]:
    """Evaluate a matrix, compare each run with its baseline, and report the result; return the flow run's state."""
    started = _now()
    home = await open_home()
    evaluations = named_evaluations(matrix)
    settings = _readable(evaluations.values()) if finish_by or budget_usd else []
    limits = night_limits(settings, finish_by, budget_usd)
    warehouse = Warehouse(home.warehouse)
    earlier = [night for night in all_nights(home) if night.name != name]
    joined = [" | ".join(names) for names in evaluations]
    baselines = read_baselines(matrix, joined, home, warehouse, earlier)
    timetable = await read_timetable(earlier, name)
    entries = []
    for index, (names, evaluation) in enumerate(evaluations.items()):
        remaining = len(evaluations) - index
        check = partial(check_prepared, names, name, baselines, warehouse)
        entry = await _evaluate(limits, remaining, names, evaluation, home, name, check, ask_again=ask_again)
        try:
            entry = await asyncio.to_thread(
                compared, entry, baselines, warehouse, gate, new_replies=ask_again
            )
        except CrosscheckError as error:
            entry = replace(entry, problem=f"{entry.problem}\n{error}".strip())
        entries.append(entry)
        score = f"EX {percent_and_counts(entry.ex)}" if entry.ex else "no score"
        get_run_logger().info("%s: %s", entry.name, entry.problem or score)
    result = Night(
        name,
        gate,
        judge(gate, entries),
        started,
        finished=_now(),
        matrix=matrix.model_dump(mode="json"),
        new_replies=ask_again,
        keep=keep,
        finish_by=finish_by,
        budget_usd=budget_usd,
        earlier=await asyncio.to_thread(paid_before, name, entries, warehouse),
        missed=timetable.missed,
        expected=timetable.expected,
    )
    await asyncio.to_thread(_log_verdicts, result, home, warehouse)
    if keep:
        # before cleaning, which keeps the baselines of written results
        await asyncio.to_thread(write, result, home)
        result = replace(result, cleaned=await asyncio.to_thread(_clean, home, keep))
    await _report(result, home, warehouse)
    if result.colour in ("Red", "Amber"):
        text = f"{result.colour}: nightly run {name}. {result.verdict}"
        if problem := await notify(result.colour, text, prefect_page(str(flow_run.id))):
            get_run_logger().error(problem)
    if result.colour == "Red":
        return Failed(message=result.verdict, name=result.colour)
    return Completed(message=result.verdict, name="Completed" if result.colour == "Green" else result.colour)


def _readable(forms: Iterable[EvaluationForm]) -> list[EvaluationSettings]:
    """Return the settings of forms, without those that cannot be read: `_evaluate` reports them, one by one."""
    settings = []
    for form in forms:
        with suppress(CrosscheckError):
            settings.append(settings_of(form))
    return settings


def _log_verdicts(night: Night, home: Home, warehouse: Warehouse) -> None:
    """Log the verdicts and the trends to MLflow; a failure is no failure of the night."""
    for entry in night.entries:
        if (record := warehouse.record_of(entry.run_id or "")) is None:
            continue
        scores = [(earlier.started, earlier.ex.ex) for earlier in entry.trend if earlier.ex.ex is not None]
        if problem := log_night(find_store(home), record, entry.verdict_in_words, scores):
            get_run_logger().warning("MLflow does not show the verdict on %s: %s", entry.name, problem)


def _clean(home: Home, keep: Keep) -> str:
    """Clean the working folder, and say what was done; a failure is no failure of the night."""
    try:
        return in_words(clean(open_folder(home, keep)))
    except CrosscheckError as error:
        return f"It was not cleaned: {error}"


def check_prepared(
    names: tuple[str, str, str], night: str, baselines: Baselines, warehouse: Warehouse, prepared: Preparation
) -> None:
    """Refuse what was prepared if it cannot be compared with its baseline, as `check_data` says."""
    selected = (question.id for question in prepared.questions)
    check_data(names, night, baselines, warehouse, prepared.benchmark, selected, prepared.databases)


def read_baselines(
    matrix: Matrix, names: Collection[str], home: Home, warehouse: Warehouse, before: Sequence[Night]
) -> Baselines:
    """Read the baselines before the first paid call: runs that the matrix names, else those that a user has pinned.

    `before` are the earlier nightly runs; a run that they found worse is no baseline.
    """
    matrix.check_baselines(names)
    pins = {
        name: pin
        for name, pin in current_pins(pin_history(home)).items()
        if name in names and name not in matrix.baselines
    }
    references = {name: str(pin.run_id) for name, pin in pins.items()} | matrix.baselines
    pinned = {name: named_run(reference, warehouse) for name, reference in references.items()}
    return Baselines(pinned, pins, worse_runs(before, warehouse.runs()))


async def _evaluate(
    limits: CellLimits,
    left: int,
    names: tuple[str, str, str],
    evaluation: EvaluationForm,
    home: Home,
    night: str,
    check: Callable[[Preparation], None],
    *,
    ask_again: bool,
) -> NightEntry:
    """Evaluate one cell; an error, an unexpected one included, becomes part of the entry.

    `left` evaluations, this one included, share what is left of the budget. `check` refuses questions and
    databases with which the scores could not be compared.
    """
    epoch = night if ask_again else None  # cached replies of another epoch are not reused
    control = Control()
    try:
        with deployed_run(home, control, nightly=str(flow_run.id)), keeping_result(control):
            cell = Cell(settings_of(evaluation, epoch=epoch), tags=evaluation.as_tags | {NIGHT: night})
            preparation = limits.prepare(cell, left, control, check)
            evaluate = evaluation_flow(control, preparation)
            # A flow run is begun again while Prefect's server does not answer.
            async for beginning in async_beginnings(control, partial(time.sleep, RESTART_S)):
                with beginning:
                    state = await evaluate(preparation.settings, return_state=True)
            control.result = await result_of(state)
        assert control.result is not None
        return NightEntry.of_run(control.result)
    except Interrupted:
        raise
    except Exception as error:
        problem = str(error)
        if not isinstance(error, CrosscheckError):  # a bug
            log.exception("%s: %s", " | ".join(names), error)
            problem = f"{type(error).__name__}: {error}"
        return NightEntry(*names, run=None, problem=problem, continue_with=evaluation.command(epoch))


async def _report(night: Night, home: Home, warehouse: Warehouse) -> None:
    """Write the record and the page of a nightly run, and show its verdict in Prefect."""
    page = await asyncio.to_thread(_write_page, night, home, warehouse)
    document = await asyncio.to_thread(night_document, night, warehouse, page=str(page))
    await show_markdown("night", markdown(document), night.verdict)
    run_log = get_run_logger()
    levels = {"Red": run_log.error, "Amber": run_log.warning}
    levels.get(night.colour, run_log.info)("%s The report is %s.", night.verdict, page)


def _write_page(night: Night, home: Home, warehouse: Warehouse) -> Path:
    """Write the record and the page of a nightly run, and the leaderboard to which it links."""
    page = write(night, home).with_suffix(".html")
    board = write_leaderboard(leaderboard(warehouse), home)
    address = os.path.relpath(board, page.parent)
    atomic_write_text(page, html(night_document(night, warehouse, address)))
    return page


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)

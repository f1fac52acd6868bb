"""The `nightly` flow: evaluates a matrix, compares each run with its baseline, and fails only for a reason."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from prefect import flow
from prefect.artifacts import acreate_markdown_artifact
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed, Failed

from flows.control import Control
from flows.deployed import attended, open_home, place, settings_of
from flows.evaluate import evaluate
from flows.evaluated import Evaluated
from flows.parameters import Evaluation, Matrix
from tasks.errors import CrosscheckError
from tasks.settings.home import Home
from tasks.settings.night import Gate
from tasks.tracking.baseline import compare_with, named_run, previous_run
from tasks.tracking.night import Entry, Night, as_object, judge
from tasks.tracking.night_page import markdown
from tasks.tracking.run_names import find_run
from tasks.tracking.warehouse import StoredRun, Warehouse

ARTIFACT = "night"
DEMO, GATE = Matrix(), Gate()


def _flow_run_name() -> str:
    return f"night {_name(flow_run.parameters.get('night'))}"


def _name(night: str | None) -> str:
    """Return the name of the running night."""
    return night or f"{flow_run.scheduled_start_time:%Y-%m-%dT%H:%MZ}"


@flow(name="nightly", flow_run_name=_flow_run_name, persist_result=False)
async def nightly(
    matrix: Matrix = DEMO,
    gate: Gate = GATE,
    ask_again: bool = False,
    night: str | None = None,
) -> State[Any]:
    """Evaluate every combination of a matrix, one after the other, and compare each with its baseline.

    Fails on a significant regression beyond the threshold, and on failed infrastructure; on nothing else.

    Args:
        matrix: What is evaluated.
        gate: When a difference is a regression.
        ask_again: Whether the models are asked again in every night, which costs as much as the first time; else
            what was answered before is reused, and only changes of Crosscheck, prompts and settings are noticed.
        night: Name of the night; left out: the time for which it was scheduled. A night that was killed continues
            under its name: with `ask_again`, replies that it had already paid for are reused.
    """
    name = _name(night)
    home = await open_home()
    warehouse = Warehouse(home.warehouse)
    baselines = _named_baselines(matrix, warehouse)
    entries = []
    for evaluation in matrix.evaluations:
        entry = await _evaluate(evaluation, home, name if ask_again else None)
        entries.append(await asyncio.to_thread(compared, entry, baselines, warehouse, gate))
        get_run_logger().info("%s: %s", entry.name, entry.problem or f"EX {entry.ex and entry.ex.value}")
    found = judge(name, gate, entries)
    await _report(found, home)
    return Failed(message=found.verdict) if found.red else Completed(message=found.verdict)


def _named_baselines(matrix: Matrix, warehouse: Warehouse) -> Mapping[str, StoredRun]:
    """Read the runs named as baselines, before anything is paid."""
    names = {f"{each.benchmark} | {each.backbone} | {each.pipeline}" for each in matrix.evaluations}
    if unknown := matrix.baselines.keys() - names:
        raise CrosscheckError(
            f"baselines names {', '.join(sorted(unknown))}, which the matrix does not contain. It contains: "
            f"{'; '.join(sorted(names))}."
        )
    return {name: named_run(reference, warehouse) for name, reference in matrix.baselines.items()}


async def _evaluate(evaluation: Evaluation, home: Home, epoch: str | None) -> Entry:
    """Run one evaluation; whatever goes wrong is part of the entry and leaves the others alone."""
    names = (evaluation.benchmark, evaluation.backbone, evaluation.pipeline)
    try:
        settings = settings_of(evaluation, epoch=epoch)
        with attended(home, Control(), night=str(flow_run.id)):
            state = await evaluate(settings, return_state=True)
            result = await state.aresult(raise_on_failure=False)
    except CrosscheckError as error:
        return Entry(*names, problem=str(error))
    if not isinstance(result, Evaluated):
        kind = "" if isinstance(result, CrosscheckError) else f"{type(result).__name__}: "
        return Entry(*names, problem=f"{kind}{result}")
    report, summary = result.report, result.summary
    return Entry(
        *names,
        problem=result.fatal,
        continue_with=f"crosscheck rerun {summary['run_id']}" if report.mendable else "",
        run_id=summary["run_id"],
        ex=report.ex,
        unanswered=report.mendable,
        calls=summary["calls"],
        cost_usd=summary["cost_usd"],
        seconds=summary["seconds"],
    )


def compared(entry: Entry, baselines: Mapping[str, StoredRun], warehouse: Warehouse, gate: Gate) -> Entry:
    """Add the comparison with the baseline, and say where too many questions have no answer."""
    run_id = entry.run_id
    if run_id is None:
        return entry
    tonight = warehouse.read_run(run_id)
    share = entry.unanswered / max(1, len(tonight.rows))
    if not entry.problem and share > gate.tolerated_failures:
        entry = replace(
            entry,
            problem=f"{entry.unanswered:,} of {len(tonight.rows):,} questions have no answer ({100 * share:.1f} %; "
            f"{100 * gate.tolerated_failures:g} % are tolerated).",
        )
    runs = warehouse.runs()
    baseline = baselines.get(entry.name) or previous_run(find_run(run_id, runs), runs, warehouse)
    if baseline is None:
        return entry
    entry = replace(entry, baseline=baseline.run.run_id)
    try:
        return replace(entry, comparison=compare_with(baseline, tonight, gate.level))
    except CrosscheckError as error:
        return replace(entry, problem=f"{entry.problem}\n{error}".strip())


async def _report(found: Night, home: Home) -> None:
    await acreate_markdown_artifact(markdown(found), key=ARTIFACT, description=found.verdict)
    text = json.dumps(as_object(found), ensure_ascii=False, indent=1)
    file = place(home, found.name)
    await asyncio.to_thread(file.write_text, text, encoding="utf-8")
    log = get_run_logger()
    (log.error if found.red else log.info)("%s The summary is in %s.", found.verdict, file)

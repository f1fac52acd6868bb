"""Makes the missing repeats of a run, one after the other, against one Prefect server."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flows.noise.plan import NoisePlan
from flows.orchestration.server import LocalServer
from flows.questions.launch import launched
from flows.report.exit_codes import ExitCode
from flows.report.result import EvaluationResult
from flows.rerun.plan import check_data
from flows.runtime.control import Control
from flows.runtime.folder_use import watched
from flows.runtime.logs import logging_to
from tasks.backbone.pricing import Budget
from tasks.core.errors import BackboneError
from tasks.core.wording import counted
from tasks.settings.home import Home
from tasks.tracking.evaluation import NOISE, REPEAT
from tasks.tracking.repeats.noise import LEAST, Noise, measure
from tasks.tracking.repeats.repeats import repeats_of
from tasks.tracking.warehouse.runs import Warehouse


@dataclass(frozen=True)
class Measured:
    """What a measurement came to."""

    plan: NoisePlan
    noise: Noise | None  # None where fewer than two repeats are whole
    problems: tuple[str, ...] = ()  # why repeats are missing, in sentences
    budget: Budget | None = field(default=None, repr=False)

    @property
    def exit_code(self) -> int:
        """0 when every repeat is whole; 3 when the same command can complete some."""
        return ExitCode.TRY_AGAIN if self.problems else ExitCode.DONE

    def as_object(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "run_id": self.plan.parent.run.run_id,
            "repeats_wanted": self.plan.wanted,
            "estimate": estimate_as_object(self.plan),
            "problems": list(self.problems),
            "noise": self.noise.as_json() if self.noise else None,
        }


def estimate_as_object(plan: NoisePlan) -> dict[str, Any]:
    """Return the estimate of a plan as plain JSON."""
    one = plan.estimate
    return {
        "repeats": len(plan.missing),
        "calls": None if one.calls is None else one.calls * len(plan.missing),
        "cost_usd": plan.estimated_usd,
    }


def make_repeats(
    plan: NoisePlan,
    opened: Callable[[str], AbstractContextManager[Control]],
    *,
    labels: Mapping[str, str] | None = None,
    budget_usd: float | None = None,
) -> Measured:
    """Make the missing repeats of a plan, and measure the noise of those that are whole.

    `opened` opens the control of a repeat, by its place among all, with its display of progress.

    Raises:
        CrosscheckError: the first repeat cannot start: what is wrong and what to do about it.
        Interrupted: the user stopped it; whole repeats and all paid replies are kept.
    """
    home, budget = Home(Path(plan.settings.home)), None if budget_usd is None else Budget(budget_usd)
    problems = []
    if plan.missing:
        with watched(home), logging_to(home), LocalServer(home) as server:
            server.wait()
            for number in plan.missing:
                with opened(f"repeat {number} of {plan.wanted}") as control:
                    control.tags = {**(labels or {}), NOISE: plan.parent.run.run_id, REPEAT: str(number)}
                    control.budget = budget
                    problem, goes_on = _repeat(plan, number, control, server)
                if problem:
                    problems.append(f"Repeat {number}: {problem}")
                if not goes_on:
                    break
    warehouse = Warehouse(home.warehouse)
    found = repeats_of(plan.parent.run.run_id, warehouse.runs())[: plan.wanted]
    if len(found) < plan.wanted and not problems:
        problems.append(f"{len(found)} of {plan.wanted} repeats are whole.")
    runs = [warehouse.read_run(each.run_id) for each in found]
    noise = measure(plan.parent, runs) if len(runs) >= LEAST else None
    return Measured(plan, noise, tuple(problems), budget)


def _repeat(plan: NoisePlan, number: int, control: Control, server: LocalServer) -> tuple[str, bool]:
    """Make one repeat; return why it is not whole, or "", and whether the next one can be made."""
    settings = plan.of_repeat(number)
    with launched(settings, control, server, flow="flows.evaluation.flow") as prefect:
        from flows.evaluation.flow import evaluation_flow

        check_data(plan.parent.run, prefect.preparation.benchmark, prefect.preparation.databases)
        flow = evaluation_flow(control, prefect.preparation)
        try:
            evaluated: EvaluationResult = prefect.loop.run(flow(settings)).unquote()
        except BackboneError as error:
            return str(error), False
    record = evaluated.record
    if record.fatal:
        return str(record.fatal), False
    left = f"{counted(record.retryable, 'question')} without an answer." if record.retryable else ""
    return left, True

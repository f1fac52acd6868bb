"""Plan of a noise measurement: the run, the repeats that are missing, and what they are expected to cost."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from flows.questions.budget import check_budget
from flows.questions.candidate_backbones import check_candidates
from flows.rerun.plan import settings_of_run
from flows.runtime.folders import Folders
from flows.sweep.plan import Cell
from tasks.backbone.kinds.kind import check_backbone, kind_of
from tasks.core.errors import ConfigurationError, DataError
from tasks.scoring.cost import Cost, total_cost
from tasks.settings.evaluation import EvaluationSettings
from tasks.tracking.repeats.repeats import repeated_run, repeats_of
from tasks.tracking.run_record import RunHeader
from tasks.tracking.warehouse.runs import Warehouse
from tasks.tracking.warehouse.stored import StoredRun

MOST = 100


@dataclass(frozen=True)
class NoisePlan:
    """A noise measurement that is ready to start."""

    parent: StoredRun = field(repr=False)  # the run that is repeated
    settings: EvaluationSettings = field(repr=False)  # its settings, without the epoch of a repeat
    wanted: int  # number of repeats
    done: tuple[RunHeader, ...]  # repeats that are whole, of any number
    estimate: Cost  # expected cost of one repeat: that of the run with an empty reply cache

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers of the repeats that are still to be made."""
        known = {int(each.tags["repeat"]) for each in self.done}
        return tuple(number for number in range(1, self.wanted + 1) if number not in known)

    @property
    def estimated_usd(self) -> float | None:
        """Expected cost of the missing repeats; None if unknown."""
        one = 0.0 if Cell(self.settings).free else self.estimate.from_scratch_usd
        return 0.0 if not self.missing else None if one is None else one * len(self.missing)

    def of_repeat(self, number: int) -> EvaluationSettings:
        """Return the settings of a repeat: those of the run, with an epoch of its own, so that all replies are new."""
        epoch = f"noise of {self.parent.run.run_id}, repeat {number}"
        return self.settings.model_copy(
            update={"backbone": self.settings.backbone.model_copy(update={"epoch": epoch})}
        )


def plan_noise(
    reference: str,
    wanted: int,
    folders: Folders,
    *,
    overrides: Sequence[str] = (),
    budget_usd: float | None = None,
    sends_requests: bool = True,
) -> NoisePlan:
    """Read the run, and find out which repeats are missing.

    Args:
        reference: names the run; a repeat stands for the run that it repeats.
        wanted: number of repeats.
        folders: of the benchmarks' files, and the working folder.
        overrides: changes of settings that cannot change what the score means, as in a re-run.
        budget_usd: limit on the cost; None: there is none.
        sends_requests: whether requests will be sent; False if it is only estimated.

    Raises:
        CrosscheckError: there is no such run, it cannot be repeated, or its cost is unknown and there is a budget.
    """
    if not 2 <= wanted <= MOST:
        raise ConfigurationError(f"--repeats {wanted}: write a number from 2 to {MOST}.")
    warehouse = Warehouse(folders.home.warehouse)
    runs = warehouse.runs()
    header = repeated_run(reference, runs)
    if not header.is_finished:
        raise DataError(
            f"The run {header.run_id} is {header.status}: repeats are made of a run that ended. The command that began "
            "it completes it."
        )
    parent = warehouse.read_run(header.run_id)
    if "gold SQL" in (why := parent.run.why_unranked):
        raise ConfigurationError(
            f"The run {header.run_id} {why}: its noise says nothing about a run that did not. Name another run."
        )
    settings = settings_of_run(parent, overrides, data=str(folders.data), home=str(folders.home.path))
    if kind_of(settings.backbone).replays:
        raise ConfigurationError(
            f"The run {header.run_id} served a recording, which always returns the same replies: it has no noise. "
            "Name a run of a model."
        )
    check_backbone(settings.backbone, sends_requests=sends_requests)
    check_candidates(settings, sends_requests=sends_requests)
    check_budget([settings], budget_usd)
    return NoisePlan(parent, settings, wanted, repeats_of(header.run_id, runs), _from_scratch(parent))


def _from_scratch(parent: StoredRun) -> Cost:
    """Return what the run would cost with an empty reply cache."""
    records = [
        replace(record, restored=False, calls=tuple(replace(call, cached=False) for call in record.calls))
        for row in parent.rows
        for record in row.outcome.stages
    ]
    calls = {call.request for record in records for call in record.calls}
    return replace(total_cost(records), calls=len(calls))

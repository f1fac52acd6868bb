"""Launches the shards of an evaluation on a Prefect work pool, waits for their answers, and reads them.

Prefect schedules, starts and watches the shards. A shard whose worker crashed is launched again; the evaluation asks
the questions of a shard that no worker takes.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean
from uuid import UUID

from pydantic import TypeAdapter

from flows.evaluate.identical_run import digest_of, source_digest
from flows.evaluate.pool import Answers
from flows.evaluate.preparation import Preparation
from flows.prefect.automations import watch_over_flow_runs
from flows.prefect.flow_runs import SHARDS, abandon, cancel, in_task_run, launch, states_of
from flows.prefect.stage_results import PersistedResults
from flows.runtime.control import Control, Interrupted
from tasks.core.errors import ConfigurationError
from tasks.results.run_record import RunRecord, json_of
from tasks.settings.evaluation import EvaluationSettings, Shard
from tasks.settings.home import find_conf


async def hand_over(results: PersistedResults, run: str, flow_run: str, answers: Answers) -> None:
    """Persist the result of a shard's flow run."""
    value = {"value": json_of(answers)}
    await in_task_run("hand over", "hand over", lambda: results.write(f"shards/{run}/{flow_run}", value))


async def read_answers(results: PersistedResults, run: str, flow_run: str) -> Answers | None:
    """Return the result of a shard's flow run; None if there is none."""
    stored = await results.read(f"shards/{run}/{flow_run}")
    return TypeAdapter(Answers).validate_python(stored["value"]) if stored else None


def shared_inputs(preparation: Preparation) -> dict[str, str]:
    """Return digests of all that prompts are made of, by its name: with others, a shard would send other requests."""
    databases = preparation.inputs.databases
    return {
        "questions": preparation.benchmark.digest,
        "databases": digest_of({id_: (base.digest, base.schema.digest) for id_, base in databases.items()}),
        "demonstrations": digest_of({"chosen": preparation.search.chosen_from or preparation.extras}),
        "code and prompts": source_digest(find_conf(), ("prompts",)),
    }


async def check_shared(results: PersistedResults, shard: Shard, inputs: Mapping[str, str]) -> None:
    """Check, before the first paid call, that this worker shares storage and inputs with the evaluation."""
    marker = await results.read(f"shards/{shard.run}/opened")
    if marker is None:
        raise ConfigurationError(
            f"This worker does not find the stage results of evaluation {shard.run}, so its answers would be lost. "
            "Give the worker and the evaluation the same CROSSCHECK_STAGES, or on one machine the same CROSSCHECK_HOME."
        )
    if differing := [name for name, digest in inputs.items() if marker["value"].get(name) != digest]:
        raise ConfigurationError(
            f"This worker and evaluation {shard.run} differ in their {', '.join(differing)}, so its answers could not "
            "be used. Put the same version of Crosscheck, CROSSCHECK_CONF and benchmark files on both machines; "
            "generated column descriptions are in the folder descriptions/ of the working folder."
        )


LOOK_EVERY_S = 2.0
MAX_WORKERS_LOST = 3
"""Crashed workers after which the evaluation asks a shard's questions itself."""
PENDING_S = 300.0
"""Timeout between taking a shard and starting it: a container's image may have to be fetched first."""
STOP_S = 90.0
"""Timeout for cancelled shards to end: a worker polls every 10 s and waits for its calls in flight."""
NO_WORKER_S = 180.0
"""Timeout without a running shard, after which the evaluation stops waiting for workers."""


@dataclass
class _ShardRun:
    """Shard that was launched on the pool."""

    shard: Shard
    flow_run: UUID  # Prefect's id of its latest flow run
    lost: int = 0  # number of workers that crashed on it
    state: str = "SCHEDULED"  # type of its state, as last seen
    since: float = field(default_factory=time.monotonic)  # when that state was first seen
    percent: float = 0.0  # progress, as last seen
    ended: bool = False  # whether it has ended or was left to the evaluation

    @property
    def stuck(self) -> bool:
        """Whether a worker took it and did not start it in time: most likely it crashed before its first heartbeat."""
        return self.state == "PENDING" and time.monotonic() - self.since > PENDING_S


async def answer_in_shards(
    preparation: Preparation, run: RunRecord, results: PersistedResults, control: Control
) -> Answers:
    """Launch all shards, wait until each has ended or no worker is left, and return their merged results.

    Answers, those of crashed workers included, are then in the shared stores; the caller restores them, and asks the
    other questions itself.
    """
    settings = preparation.settings
    control.progress.step(f"Launching {settings.shards} shards")
    await watch_over_flow_runs()
    # every shard must find this before its first call, which shows that the storage is shared
    content = {"value": shared_inputs(preparation)}
    await in_task_run(
        "hand over", "open the shards", lambda: results.write(f"shards/{run.run_id}/opened", content)
    )
    shard_runs: list[_ShardRun] = []
    try:
        for number in range(1, settings.shards + 1):
            shard = Shard(run=run.run_id, number=number, of=settings.shards)
            shard_runs.append(await _launch(settings, shard))
        return await _wait(shard_runs, settings, results, control)
    except BaseException:
        # Otherwise they and a repetition of the command would ask the same questions.
        await cancel([shard_run.flow_run for shard_run in shard_runs if not shard_run.ended])
        raise


async def _launch(settings: EvaluationSettings, shard: Shard) -> _ShardRun:
    parameters = {"settings": settings.model_dump(mode="json"), "shard": shard.model_dump(mode="json")}
    return _ShardRun(shard, await launch(SHARDS, parameters, f"{shard} of {shard.run}"))


async def _wait(
    shard_runs: Sequence[_ShardRun], settings: EvaluationSettings, results: PersistedResults, control: Control
) -> Answers:
    """Return what the shards answered; if every shard is refused, the settings are wrong."""
    answers = Answers()
    refusals = []
    last_running = time.monotonic()
    while waiting := [shard_run for shard_run in shard_runs if not shard_run.ended]:
        if control.stop.is_set():
            message = "stopped."
            if not await _stop([shard_run.flow_run for shard_run in waiting], control):
                message += (
                    " The shards have not ended: calls in flight there may be given up, and paid for again."
                )
            raise Interrupted(
                f"{message} Every reply that came is kept: run the same command again to continue."
            )
        states = await states_of([shard_run.flow_run for shard_run in waiting])
        for shard_run in waiting:
            if (state := states.get(shard_run.flow_run)) is None:
                continue
            if state.state != shard_run.state:
                shard_run.state = state.state
                shard_run.since = time.monotonic()
            shard_run.percent = max(shard_run.percent, state.percent)
            if state.state == "COMPLETED":
                shard_answers = await read_answers(results, shard_run.shard.run, str(shard_run.flow_run))
                if shard_answers:
                    answers.outcomes |= shard_answers.outcomes
                    answers.task_runs += shard_answers.task_runs
                    answers.recorded += shard_answers.recorded
                    answers.fatal = answers.fatal or shard_answers.fatal
                else:  # its answers are kept, but not the failures of the other questions
                    control.progress.note(
                        f"The failures of {shard_run.shard} could not be read. Its questions without an answer were "
                        "run again."
                    )
                shard_run.ended = True
            elif (state.ended or shard_run.stuck) and not await _launch_again(shard_run, settings, control):
                refusals.append(f"{shard_run.shard}: {state.message or 'no worker began it.'}")
        if len(refusals) == len(shard_runs):
            raise ConfigurationError(refusals[0])
        control.progress.step(_progress(shard_runs))
        if any(shard_run.state == "RUNNING" for shard_run in shard_runs):
            last_running = time.monotonic()
        elif time.monotonic() - last_running > NO_WORKER_S:
            await _take_back([shard_run for shard_run in shard_runs if not shard_run.ended], control)
        with suppress(TimeoutError):
            await asyncio.wait_for(control.stop.wait(), LOOK_EVERY_S)
    for refusal in refusals:
        control.progress.note(f"{refusal} The evaluation ran its questions itself.")
    # a task run opened the shards, and one launched each of them, each time
    answers.launches = 1 + sum(1 + shard_run.lost for shard_run in shard_runs)
    return answers


async def _stop(flow_runs: Sequence[UUID], control: Control) -> bool:
    """Cancel shards, and wait until they have ended, since replies to calls in flight are still stored.

    Return whether they have ended; the wait ends when the user asks for an immediate stop.
    """
    await cancel(flow_runs)
    deadline = time.monotonic() + STOP_S
    while not control.stop_now.is_set() and time.monotonic() < deadline:
        states = await states_of(flow_runs)
        if states and all(state.ended for state in states.values()):
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(control.stop_now.wait(), LOOK_EVERY_S)
    return False


async def _launch_again(shard_run: _ShardRun, settings: EvaluationSettings, control: Control) -> bool:
    """Launch a shard again whose worker crashed; end it, and return False, if it failed otherwise or too often."""
    if shard_run.stuck:
        await abandon([shard_run.flow_run], "The worker that took it did not begin.")
    if (shard_run.state == "CRASHED" or shard_run.stuck) and shard_run.lost < MAX_WORKERS_LOST:
        control.progress.note(
            f"A worker crashed on {shard_run.shard}; it was launched again, and its answers are kept."
        )
        relaunched = await _launch(settings, shard_run.shard)
        shard_run.flow_run = relaunched.flow_run
        shard_run.lost += 1
        shard_run.state, shard_run.since = relaunched.state, relaunched.since
        return True
    shard_run.ended = True
    return False


async def _take_back(waiting: Sequence[_ShardRun], control: Control) -> None:
    """Cancel the shards that no worker takes, and leave their questions to the evaluation."""
    flow_runs = [shard_run.flow_run for shard_run in waiting]
    await abandon(flow_runs, "No worker began it; the evaluation asks its questions.")
    for shard_run in waiting:
        shard_run.ended = True
    control.progress.note(
        f"No worker took {len(waiting)} of the shards within {NO_WORKER_S:.0f} s; the evaluation ran their questions "
        "itself. Start workers, or more of them: `prefect worker start --pool nightly`."
    )


def _progress(shard_runs: Sequence[_ShardRun]) -> str:
    running = sum(not shard_run.ended and shard_run.state == "RUNNING" for shard_run in shard_runs)
    ended = sum(shard_run.ended for shard_run in shard_runs)
    percent = fmean(100.0 if shard_run.ended else shard_run.percent for shard_run in shard_runs)
    return (
        f"Shards: {ended} of {len(shard_runs)} finished, {running} running; {percent:.0f} % of the questions"
    )

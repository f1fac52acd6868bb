"""Launches the shards of an evaluation on a Prefect work pool, waits for their answers, and reads them.

Prefect schedules, starts and watches the shards. A shard whose worker crashed is launched again; the evaluation asks
the questions of a shard that no worker takes.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from flows.evaluate.pool import Answers
from flows.prefect.automations import watch_over_flow_runs
from flows.prefect.flow_runs import SHARDS, abandon, cancel, launch, states_of
from flows.prefect.stage_results import PersistedResults
from flows.prefect.task_runs import in_task_run
from flows.runtime.control import Control, Interrupted
from tasks.core.errors import ConfigurationError
from tasks.core.outcome import Outcome
from tasks.results.run_record import RunRecord
from tasks.settings.evaluation import EvaluationSettings, Shard

if TYPE_CHECKING:
    from flows.prefect.flow_runs import FlowRunState


@dataclass(frozen=True)
class ShardAnswers:
    """Result of a shard, except its answers, which are restored from persisted stage results."""

    # outcomes of the questions that have no answer, by question id: failures are never persisted
    failed: Mapping[str, Outcome] = field(default_factory=dict)
    task_runs: int = 0  # Prefect task runs that the shard took
    recorded: int = 0  # those of them that Prefect has recorded
    launches: int = 0  # task runs of the evaluation itself, for launching the shards
    fatal: str = ""  # why no further question was run, "" if all were

    @property
    def as_answers(self) -> Answers:
        """The answers that a pool begins with."""
        return Answers(dict(self.failed), task_runs=self.task_runs, fatal=self.fatal)


_answers: TypeAdapter[ShardAnswers] = TypeAdapter(ShardAnswers)


async def _persist(what: str, key: str, results: PersistedResults, value: Any) -> None:
    await in_task_run("hand over", what, lambda: results.write(key, {"value": value}))


async def open_shards(results: PersistedResults, run: str, questions_sha256: str) -> None:
    """Persist a record that every shard must find before its first call, which shows that the storage is shared."""
    await _persist("open the shards", _opening_key(run), results, questions_sha256)


async def hand_over(results: PersistedResults, run: str, flow_run: str, answers: ShardAnswers) -> None:
    """Persist the result of a shard's flow run."""
    await _persist("hand over", _answers_key(run, flow_run), results, to_jsonable_python(answers))


async def read_answers(results: PersistedResults, run: str, flow_run: str) -> ShardAnswers | None:
    """Return the result of a shard's flow run; None if there is none."""
    stored = await results.read(_answers_key(run, flow_run))
    return _answers.validate_python(stored["value"]) if stored else None


async def check_shared(results: PersistedResults, shard: Shard, questions_sha256: str) -> None:
    """Check, before the first paid call, that this worker shares storage and questions with the evaluation."""
    opened = await results.read(_opening_key(shard.run))
    if opened is None:
        raise ConfigurationError(
            f"This worker does not find the stage results of evaluation {shard.run}, so its answers would be lost. "
            "Give the worker and the evaluation the same CROSSCHECK_STAGES, or on one machine the same CROSSCHECK_HOME."
        )
    if opened["value"] != questions_sha256:
        raise ConfigurationError(
            f"The questions on this worker are not those of evaluation {shard.run} (sha256 {questions_sha256[:12]} and "
            f"{str(opened['value'])[:12]}). Put the same benchmark files on both machines."
        )


def _opening_key(run: str) -> str:
    return f"shards/{run}/opened"


def _answers_key(run: str, flow_run: str) -> str:
    return f"shards/{run}/{flow_run}"


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
class _Launched:
    """Shard that was launched on the pool."""

    shard: Shard  # the shard
    flow_run: UUID  # Prefect's id of its latest flow run
    lost: int = 0  # number of workers that crashed on it
    state: str = "SCHEDULED"  # type of its state, as last seen
    # time at which that state was first seen, by `time.monotonic`
    since: float = field(default_factory=time.monotonic)
    percent: float = 0.0  # progress, as last seen
    ended: bool = False  # whether it has ended or was left to the evaluation

    def see(self, state: "FlowRunState") -> None:
        """Update the state of its flow run."""
        if state.state != self.state:
            self.state, self.since = state.state, time.monotonic()
        self.percent = max(self.percent, state.percent)

    @property
    def stuck(self) -> bool:
        """Whether a worker took it and did not start it in time: most likely it crashed before its first heartbeat."""
        return self.state == "PENDING" and time.monotonic() - self.since > PENDING_S


async def answer_in_shards(
    settings: EvaluationSettings, run: RunRecord, results: PersistedResults, control: Control
) -> ShardAnswers:
    """Launch all shards, and wait until each has ended or no worker is left.

    Answers, those of crashed workers included, are then in the shared stores; the caller restores them, and asks the
    other questions itself.

    Returns:
        The merged results of the shards.
    """
    control.progress.step(f"Launching {settings.shards} shards")
    await watch_over_flow_runs()
    await open_shards(results, run.run_id, run.question_sha256)
    launched: list[_Launched] = []
    try:
        for number in range(1, settings.shards + 1):
            launched.append(await _launch(settings, Shard(run=run.run_id, number=number, of=settings.shards)))
        return await _wait(launched, settings, results, control)
    except BaseException:
        # Otherwise they and a repetition of the command would ask the same questions.
        await cancel([each.flow_run for each in launched if not each.ended])
        raise


async def _launch(settings: EvaluationSettings, shard: Shard) -> _Launched:
    parameters = {"settings": settings.model_dump(mode="json"), "shard": shard.model_dump(mode="json")}
    return _Launched(shard, await launch(SHARDS, parameters, f"{shard} of {shard.run}"))


async def _wait(
    launched: Sequence[_Launched], settings: EvaluationSettings, results: PersistedResults, control: Control
) -> ShardAnswers:
    answers, refusals, busy = ShardAnswers(), [], time.monotonic()
    while waiting := [each for each in launched if not each.ended]:
        if control.stop.is_set():
            raise Interrupted(
                "stopped. Every reply that came is kept: run the same command again to continue."
                if await _stop([each.flow_run for each in waiting], control)
                else "stopped. The shards have not ended: calls in flight there may be given up, and paid for again. "
                "Every reply that came is kept: run the same command again to continue."
            )
        states = await states_of([each.flow_run for each in waiting])
        for each in waiting:
            if (state := states.get(each.flow_run)) is None:
                continue
            each.see(state)
            if state.state == "COMPLETED":
                answers = _together(answers, await _handed_over(each, results, control))
                each.ended = True
            elif (state.ended or each.stuck) and not await _again(each, settings, control):
                refusals.append(f"{each.shard}: {state.message or 'no worker began it.'}")
        if len(refusals) == len(launched):  # every shard was refused: a configuration error, not a crash
            raise ConfigurationError(refusals[0])
        control.progress.step(_progress(launched))
        if any(each.state == "RUNNING" for each in launched):
            busy = time.monotonic()
        elif time.monotonic() - busy > NO_WORKER_S:
            await _take_back([each for each in launched if not each.ended], control)
        with suppress(TimeoutError):
            await asyncio.wait_for(control.stop.wait(), LOOK_EVERY_S)
    for refusal in refusals:
        control.progress.note(f"{refusal} The evaluation ran its questions itself.")
    return replace(answers, launches=1 + sum(1 + each.lost for each in launched))


async def _stop(flow_runs: Sequence[UUID], control: Control) -> bool:
    """Cancel shards, and wait until they have ended, since replies to calls in flight are still stored.

    Return whether they have ended; the wait ends when the user asks for an immediate stop.
    """
    await cancel(flow_runs)
    given_up = time.monotonic() + STOP_S
    while not control.stop_now.is_set() and time.monotonic() < given_up:
        states = await states_of(flow_runs)
        if states and all(state.ended for state in states.values()):
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(control.stop_now.wait(), LOOK_EVERY_S)
    return False


async def _again(each: _Launched, settings: EvaluationSettings, control: Control) -> bool:
    """Launch a shard again whose worker crashed; return False if it failed otherwise or crashed too often."""
    if each.stuck:
        await abandon([each.flow_run], "The worker that took it did not begin.")
    if (each.state == "CRASHED" or each.stuck) and each.lost < MAX_WORKERS_LOST:
        control.progress.note(
            f"A worker crashed on {each.shard}; it was launched again, and its answers are kept."
        )
        again = await _launch(settings, each.shard)
        each.flow_run, each.lost = again.flow_run, each.lost + 1
        each.state, each.since = again.state, again.since
        return True
    each.ended = True
    return False


async def _handed_over(each: _Launched, results: PersistedResults, control: Control) -> ShardAnswers:
    answers = await read_answers(results, each.shard.run, str(each.flow_run))
    if answers is None:  # its answers are kept, but not the failures of the other questions
        control.progress.note(
            f"The failures of {each.shard} could not be read. Its questions without an answer were run again."
        )
    return answers or ShardAnswers()


async def _take_back(waiting: Sequence[_Launched], control: Control) -> None:
    """Cancel the shards that no worker takes, and leave their questions to the evaluation."""
    await abandon(
        [each.flow_run for each in waiting], "No worker began it; the evaluation asks its questions."
    )
    for each in waiting:
        each.ended = True
    control.progress.note(
        f"No worker took {len(waiting)} of the shards within {NO_WORKER_S:.0f} s; the evaluation ran their questions "
        "itself. Start workers, or more of them: `prefect worker start --pool nightly`."
    )


def _together(one: ShardAnswers, other: ShardAnswers) -> ShardAnswers:
    return ShardAnswers(
        failed={**one.failed, **other.failed},
        task_runs=one.task_runs + other.task_runs,
        recorded=one.recorded + other.recorded,
        fatal=one.fatal or other.fatal,
    )


def _progress(launched: Sequence[_Launched]) -> str:
    running = sum(not each.ended and each.state == "RUNNING" for each in launched)
    ended = sum(each.ended for each in launched)
    percent = sum(100.0 if each.ended else each.percent for each in launched) / len(launched)
    return f"Shards: {ended} of {len(launched)} finished, {running} running; {percent:.0f} % of the questions"

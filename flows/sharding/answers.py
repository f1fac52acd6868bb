"""Results that a shard passes to its evaluation through the storage of stage results, which both share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from flows.orchestration.stage_results import PersistedResults
from flows.orchestration.task_runs import in_task_run
from flows.questions.pool import Answers
from tasks.core.errors import ConfigurationError
from tasks.core.outcome import Outcome
from tasks.settings.evaluation import Shard


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
    found = await results.read(_answers_key(run, flow_run))
    return _answers.validate_python(found["value"]) if found else None


async def check_shared(results: PersistedResults, shard: Shard, questions_sha256: str) -> None:
    """Check, before the first paid call, that this worker shares storage and questions with the evaluation.

    Raises:
        ConfigurationError: it does not.
    """
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

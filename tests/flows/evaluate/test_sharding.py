"""What becomes of shards that no worker begins, on a real Prefect server; the workers are played."""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.states import Completed, Failed, Pending, Running, Scheduled, State

from flows.evaluate import shards as sharding
from flows.evaluate.identical_run import source_digest
from flows.evaluate.pool import Answers
from flows.evaluate.preparation import prepare
from flows.evaluate.shards import check_shared, hand_over, shared_inputs
from flows.prefect.stage_results import PersistedResults, open_results
from flows.runtime.control import Control
from tasks.core.errors import ConfigurationError, StoreError
from tasks.core.outcome import Failure, Outcome
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice
from tasks.settings.evaluation import Shard
from tasks.settings.home import Home, find_conf
from tests.support.prefect_home import in_flow
from tests.tasks.results.samples import make_run

pytestmark = pytest.mark.slow

RUN = make_run()
FAILED = Outcome("7", None, failure=Failure("backbone_error", "", "no answer", True))

Launch = Callable[[str, dict[str, Any], str], Awaitable[UUID]]


@flow(name="answer-shard")
async def shard_flow() -> None:
    """A flow to have runs of."""


async def flow_run(state: State[Any]) -> UUID:
    async with get_client() as client:
        return (await client.create_flow_run(shard_flow, state=state)).id


async def state_of(id_: UUID) -> str:
    async with get_client() as client:
        return (await client.read_flow_run(id_)).state.type.value


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, prefect_home: Home) -> Callable[..., list[UUID]]:
    """Has launching give flow runs in these states, one after the other, or fail; those that completed handed over."""
    monkeypatch.setattr(sharding, "LOOK_EVERY_S", 0.05)

    def launch_as(*states: State[Any] | Exception) -> list[UUID]:
        waiting, made = list(states), []

        async def launch(deployment: str, parameters: dict[str, Any], name: str) -> UUID:
            state = waiting.pop(0)
            if isinstance(state, Exception):
                raise state
            made.append(await flow_run(state))
            if state.is_completed():
                answers = Answers(outcomes={FAILED.question_id: FAILED}, task_runs=5, recorded=4)
                await hand_over(open_results(prefect_home), RUN.run_id, str(made[-1]), answers)
            return made[-1]

        monkeypatch.setattr(sharding, "launch", launch)
        return made

    return launch_as


async def answered(home: Home, shards: int = 1) -> tuple[Answers, list[str]]:
    choice = EvaluationChoice(
        benchmark="demo", backbone="offline", pipeline="zero-shot", home=str(home.path), shards=shards
    )
    control = Control()
    preparation = prepare(evaluation_settings(choice), control.progress)

    async def work() -> Answers:
        return await sharding.answer_in_shards(preparation, RUN, open_results(home), control)

    return await in_flow(work), control.progress.notes


async def test_what_shards_hand_over_is_put_together(
    prefect_home: Home, launched: Callable[..., list[UUID]]
) -> None:
    launched(Completed(), Completed())
    found, notes = await answered(prefect_home, shards=2)
    assert found == Answers({"7": FAILED}, task_runs=10, recorded=8, launches=3)
    assert notes == []


async def test_a_shard_that_was_taken_and_not_begun_is_given_to_another_worker(
    prefect_home: Home, launched: Callable[..., list[UUID]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharding, "PENDING_S", 0.0)
    made = launched(Pending(), Completed())
    found, notes = await answered(prefect_home)
    assert (found.task_runs, found.launches) == (5, 3)
    assert "A worker crashed on shard 1 of 1" in notes[0]
    assert await state_of(made[0]) == "CANCELLED"


async def test_what_no_worker_takes_is_left_to_the_evaluation(
    prefect_home: Home, launched: Callable[..., list[UUID]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharding, "NO_WORKER_S", 0.0)
    made = launched(Scheduled(), Completed())
    found, notes = await answered(prefect_home, shards=2)
    assert found.outcomes == {"7": FAILED}
    assert "No worker took 1 of the shards" in notes[0]
    assert await state_of(made[0]) == "CANCELLED"


async def test_a_hand_over_that_was_lost_and_an_error_leave_no_answer_and_no_shard_behind(
    prefect_home: Home, launched: Callable[..., list[UUID]], monkeypatch: pytest.MonkeyPatch
) -> None:
    launched(Completed())

    async def lost(results: PersistedResults, run: str, flow_run: str) -> None:
        return None

    monkeypatch.setattr(sharding, "read_answers", lost)
    found, notes = await answered(prefect_home)
    assert (found.outcomes, found.fatal) == ({}, "")
    assert "The failures of shard 1 of 1 could not be read" in notes[0]

    async def broken(results: PersistedResults, run: str, flow_run: str) -> None:
        raise StoreError("away")

    monkeypatch.setattr(sharding, "read_answers", broken)
    made = launched(Completed(), Scheduled())
    with pytest.raises(StoreError):
        await answered(prefect_home, shards=2)
    assert await state_of(made[1]) == "CANCELLED"


async def test_shards_are_cancelled_when_a_later_one_cannot_be_launched(
    prefect_home: Home, launched: Callable[..., list[UUID]]
) -> None:
    made = launched(Scheduled(), Running(), ConnectionError("the server is away"))
    with pytest.raises(ConnectionError, match="the server is away"):
        await answered(prefect_home, shards=3)
    assert [await state_of(each) for each in made] == ["CANCELLED", "CANCELLING"]


async def test_one_shard_that_fails_is_left_to_the_evaluation_and_when_all_do_that_is_why(
    prefect_home: Home, launched: Callable[..., list[UUID]]
) -> None:
    launched(Failed(message="The key is missing."), Completed())
    found, notes = await answered(prefect_home, shards=2)
    assert found.task_runs == 5
    assert notes == ["shard 1 of 2: The key is missing. The evaluation ran its questions itself."]
    launched(Failed(message="The key is missing."), Failed(message="The key is missing."))
    with pytest.raises(ConfigurationError, match="shard 1 of 2: The key is missing"):
        await answered(prefect_home, shards=2)


async def test_a_worker_with_another_prompt_is_refused_as_the_evaluation_could_not_use_its_answers(
    prefect_home: Home, launched: Callable[..., list[UUID]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    launched(Completed())
    await answered(prefect_home)
    choice = EvaluationChoice(backbone="offline", pipeline="zero-shot", home=str(prefect_home.path))
    shard, results = Shard(run=RUN.run_id, number=1, of=1), open_results(prefect_home)

    async def check() -> None:
        inputs = shared_inputs(prepare(evaluation_settings(choice), Control().progress))
        await check_shared(results, shard, inputs)

    shutil.copytree(find_conf(), conf := tmp_path / "conf")
    monkeypatch.setenv("CROSSCHECK_CONF", str(conf))
    await check()
    prompt = conf / "prompts" / "preliminary_sql.jinja"
    prompt.write_text(prompt.read_text(encoding="utf-8") + " ", encoding="utf-8")
    source_digest.cache_clear()
    with pytest.raises(ConfigurationError, match="differ in their code and prompts, so"):
        await check()

"""Task runs that hold several calls of a stage: each is answered, persisted and retried by itself."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any
from uuid import UUID

import pytest
from prefect.client.schemas.objects import TaskRun
from prefect.runtime import flow_run, task_run

import flows.prefect.stage_task_runs
from flows.prefect.stage_results import open_results
from flows.prefect.stage_task_runs import TaskRuns, task_of
from tasks.core.errors import BackboneError, StoreError
from tasks.core.records import Question
from tasks.settings.home import Home
from tasks.stages.question_run import QuestionRun, current_question_run, in_question_run
from tasks.stages.stage import stage
from tests.support.kept_results import kept_results
from tests.support.prefect_home import in_flow, recorded_task_runs

pytestmark = pytest.mark.slow

ANSWERS: dict[str, Callable[[], Awaitable[str]]] = {}
"""What the stage does for a question, by its id."""


@stage()
async def asked(question: Question) -> str:
    """Do what the test says."""
    assert current_question_run().question == question, "the caller's context"
    return await ANSWERS[question.id]()


@pytest.fixture(autouse=True)
def busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have Prefect count as busy for the whole test, and repeat without long pauses."""
    ANSWERS.clear()
    changes = {"BUSY_FACTOR": 1e6, "MAX_BUSY_S": 1e6, "TASK_RETRY_DELAYS_S": (0.05, 0.1)}
    for name, value in changes.items():
        monkeypatch.setattr(flows.prefect.stage_task_runs, name, value)
    task_of.cache_clear()
    yield
    task_of.cache_clear()


def waiting_for(event: asyncio.Event, begun: asyncio.Event | None = None) -> Callable[[], Awaitable[str]]:
    """Return an answer that comes after an event; it says that it has begun."""

    async def answer() -> str:
        if begun:
            begun.set()
        await event.wait()
        return "slow"

    return answer


async def ask(task_runs: TaskRuns, id: str) -> str:
    """Call the stage for a question, without restoring."""
    with in_question_run(QuestionRun(Question(id, f"question {id}", "shop"), task_runs=task_runs)):
        return await asked(Question(id, f"question {id}", "shop"))


async def evaluated(
    home: Home, work: Callable[[TaskRuns], Awaitable[Any]], store: Any = None
) -> tuple[Any, list[TaskRun]]:
    """Run `work` in a flow; return what it found, and the task runs that Prefect has recorded."""

    async def in_it() -> tuple[Any, UUID, int]:
        task_runs = TaskRuns(store or open_results(home))
        found = await work(task_runs)
        await task_runs.finish()
        return found, UUID(flow_run.id), task_runs.begun

    found, id, begun = await in_flow(in_it)
    return found, await recorded_task_runs(id, begun)


def failing(times: int, *, transient: bool = True) -> Callable[[], Awaitable[str]]:
    """Return an answer that fails so often, and then succeeds."""
    left = [times]

    async def answer() -> str:
        if left[0]:
            left[0] -= 1
            raise BackboneError("no reply", transient=transient)
        return "answer"

    return answer


async def test_calls_that_come_while_prefect_is_busy_share_a_task_run_and_none_waits_for_another(
    prefect_home: Home,
) -> None:
    slow = asyncio.Event()
    names: list[str] = []

    async def quick() -> str:
        names.append(str(task_run.id))
        return "quick"

    async def waits() -> str:
        names.append(str(task_run.id))
        await slow.wait()
        return "slow"

    ANSWERS.update({"1": waits, "2": quick, "3": quick})

    async def work(task_runs: TaskRuns) -> list[str]:
        first = asyncio.create_task(ask(task_runs, "1"))
        second = await ask(task_runs, "2")  # comes while the task run is begun
        third = await ask(task_runs, "3")  # comes while it runs
        assert len(kept_results(prefect_home)) == 2, "persisted before the others have ended"
        assert not first.done()
        slow.set()
        return [await first, second, third]

    found, runs = await evaluated(prefect_home, work)
    assert found == ["slow", "quick", "quick"]
    (run,) = runs
    assert run.name == "asked · 3 questions"
    assert run.state is not None and run.state.is_completed()
    assert run.state.message in ("shop 1, 2, 3", "shop 2, 1, 3")
    assert set(names) == {str(run.id)}, "the stage sees the task run that it is in"


async def test_a_retry_of_a_task_run_takes_only_what_failed(prefect_home: Home) -> None:
    asked_for: list[str] = []

    def counted(id: str, answer: Callable[[], Awaitable[str]]) -> Callable[[], Awaitable[str]]:
        async def count() -> str:
            asked_for.append(id)
            return await answer()

        return count

    for id, times in {"1": 0, "2": 1, "3": 2, "4": 3}.items():
        ANSWERS[id] = counted(id, failing(times))

    async def work(task_runs: TaskRuns) -> list[Any]:
        return await asyncio.gather(*(ask(task_runs, id) for id in ANSWERS), return_exceptions=True)

    found, runs = await evaluated(prefect_home, work)
    assert found[:3] == ["answer"] * 3
    assert isinstance(found[3], BackboneError)
    assert sorted(asked_for) == ["1", "2", "2", "3", "3", "3", "4", "4", "4"]
    (run,) = runs
    assert run.run_count == 3
    assert run.state is not None and run.state.is_failed()
    assert run.state.message == "shop 4: no reply"
    assert run.name.endswith(" · 4 questions, 1 failed: 4")
    assert len(kept_results(prefect_home)) == 3


async def test_a_name_says_how_many_calls_a_task_run_holds_and_what_failed(prefect_home: Home) -> None:
    ANSWERS["1"] = failing(1, transient=False)
    ANSWERS["2"] = failing(0)

    async def work(task_runs: TaskRuns, *ids: str) -> list[Any]:
        return await asyncio.gather(*(ask(task_runs, id) for id in ids), return_exceptions=True)

    _, (run,) = await evaluated(prefect_home, lambda task_runs: work(task_runs, "1", "1"))
    assert run.name == "asked · shop · 1 (2 calls), 1 failed"
    ANSWERS["1"] = failing(1, transient=False)
    _, (run,) = await evaluated(prefect_home, lambda task_runs: work(task_runs, "1", "2", "2"))
    assert run.name == "asked · 2 questions (3 calls), 1 failed: 1"


async def test_a_failed_call_runs_again_while_another_still_runs(prefect_home: Home) -> None:
    mended = asyncio.Event()
    ANSWERS.update({"1": waiting_for(mended), "2": failing(1)})

    async def work(task_runs: TaskRuns) -> list[str]:
        first = asyncio.create_task(ask(task_runs, "1"))
        second = await ask(task_runs, "2")
        mended.set()
        return [await first, second]

    found, (run,) = await evaluated(prefect_home, work)
    assert found == ["slow", "answer"]
    assert run.run_count == 1 and run.state is not None and run.state.is_completed()


async def test_a_caller_that_is_cancelled_stops_its_own_call_only(prefect_home: Home) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless() -> str:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.set()
        return "never"

    async def after() -> str:
        await ended.wait()
        return "answer"

    ANSWERS.update({"1": endless, "2": after})

    async def work(task_runs: TaskRuns) -> str:
        first = asyncio.create_task(ask(task_runs, "1"))
        second = asyncio.create_task(ask(task_runs, "2"))
        await begun.wait()
        first.cancel()
        return await second

    found, (run,) = await evaluated(prefect_home, work)
    assert found == "answer"
    assert run.state is not None and run.state.is_cancelled()
    assert run.state.message == "stopped: shop 1"
    assert len(kept_results(prefect_home)) == 1


async def test_a_result_that_cannot_be_persisted_is_not_used(prefect_home: Home) -> None:
    class FullDisk:
        async def read(self, key: str) -> None:
            return None

        async def write(self, key: str, result: Mapping[str, Any]) -> None:
            raise StoreError("the disk is full")

    ANSWERS["1"] = failing(0)

    async def work(task_runs: TaskRuns) -> None:
        with pytest.raises(StoreError, match="the disk is full"):
            await ask(task_runs, "1")

    _, (run,) = await evaluated(prefect_home, work, FullDisk())
    assert run.state is not None and run.state.is_failed()


async def test_when_prefect_itself_fails_the_calls_fail_and_do_not_wait(
    prefect_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(run: Any) -> None:
        raise RuntimeError("no server")

    monkeypatch.setattr(flows.prefect.stage_task_runs, "task_of", lambda stage: broken)
    task_runs = TaskRuns(open_results(prefect_home))
    ANSWERS["1"] = failing(0)
    with pytest.raises(RuntimeError, match="no server"):
        await ask(task_runs, "1")


async def test_a_call_that_comes_when_prefect_is_idle_has_a_task_run_of_its_own(
    prefect_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows.prefect.stage_task_runs, "BUSY_FACTOR", 0.0)
    begun, slow = asyncio.Event(), asyncio.Event()
    ANSWERS.update({"1": waiting_for(slow, begun), "2": failing(0)})

    async def work(task_runs: TaskRuns) -> None:
        first = asyncio.create_task(ask(task_runs, "1"))
        await begun.wait()
        await ask(task_runs, "2")
        slow.set()
        await first

    _, runs = await evaluated(prefect_home, work)
    assert {run.name for run in runs} == {"asked · shop · 1", "asked · shop · 2"}


async def test_calls_before_the_flow_run_run_at_once_and_its_page_shows_them(prefect_home: Home) -> None:
    ANSWERS.update({"1": failing(0), "2": failing(1), "3": failing(9, transient=False)})
    task_runs = TaskRuns(open_results(prefect_home), early=True)
    restored: list[str] = []

    async def restore() -> None:
        restored.append("all")

    await task_runs.in_task_run("restore", "restore persisted results", restore)
    early = await asyncio.gather(*(ask(task_runs, id) for id in "123"), return_exceptions=True)
    assert early[:2] == ["answer", "answer"] and isinstance(early[2], BackboneError)
    assert restored == ["all"] and len(kept_results(prefect_home)) == 2

    async def work(_: TaskRuns) -> tuple[str, UUID]:
        task_runs.begin()
        later = await ask(task_runs, "1")
        await task_runs.finish()
        return later, UUID(flow_run.id)

    (later, id), _ = await evaluated(prefect_home, work)
    assert later == "answer"
    # a call that is to be repeated closes its task run to further ones
    assert sorted(run.name for run in await recorded_task_runs(id, 3)) == [
        "asked · 2 questions",
        "asked · 2 questions, 1 failed: 3",
        "restore persisted results",
    ]

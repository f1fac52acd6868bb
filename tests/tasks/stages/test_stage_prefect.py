"""Stages as Prefect tasks in a real flow: restored, retried, named, and made anew when what was kept is broken."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from prefect.runtime import flow_run

import flows.prefect.stage_task_runs
from flows.prefect.stage_results import open_results
from flows.prefect.stage_task_runs import TaskRuns
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.protocol import Reply, Request
from tasks.core.errors import BackboneError
from tasks.core.records import Question
from tasks.settings.home import Home
from tasks.stages.question_run import NotCached, QuestionRun, StageStore, Stopped, in_question_run
from tasks.stages.rsl_sql import augmentation_conditions
from tasks.stages.stage import stage
from tests.support.fake_openai import error, reply, server_error, unauthorized
from tests.support.kept_results import kept_results, replace_result
from tests.support.prefect_home import in_flow, prefect_api, prefect_home, recorded_task_runs
from tests.support.stage_bench import QUESTION, Bench, stages_run

__all__ = ["prefect_api", "prefect_home"]

pytestmark = pytest.mark.slow

CONDITIONS = '{"conditions": ["of Lyon"]}'
OTHER = '{"conditions": ["sold something"]}'


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Repeat tasks without a pause, and forget the tasks that were made so."""
    monkeypatch.setattr(flows.prefect.stage_task_runs, "TASK_RETRY_DELAYS_S", (0.0, 0.0))
    flows.prefect.stage_task_runs.task_of.cache_clear()
    yield
    flows.prefect.stage_task_runs.task_of.cache_clear()


def question_run_in(home: Home, **more: object) -> QuestionRun:
    """A question run whose stages run as tasks; its store remembers nothing but what is on disk."""
    results = open_results(home)
    return QuestionRun(QUESTION, results, TaskRuns(results), **more)  # type: ignore[arg-type]


async def conditions(
    bench: Bench, question_run: QuestionRun, question: Question = QUESTION
) -> tuple[str, ...]:
    """Run one stage inside of a flow."""

    async def work() -> tuple[str, ...]:
        with in_question_run(question_run):
            return await augmentation_conditions(question, bench.backbone)

    return await in_flow(work)


class Unretried:
    """A backbone of one's own around another: it leaves all retries to the stage."""

    def __init__(self, inner: MeteredBackbone) -> None:
        self._inner = inner
        self.identity = inner.identity

    async def complete(self, request: Request) -> Reply:
        try:
            return await self._inner.complete(request)
        except BackboneError as error:
            raise BackboneError(str(error), transient=error.transient) from None


def of_ones_own(bench: Bench) -> Bench:
    """The bench with a backbone that does not retry by itself."""
    return replace(bench, backbone=MeteredBackbone(Unretried(bench.backbone)))


async def test_a_second_call_is_restored_without_a_task_run(bench: Bench, prefect_home: Home) -> None:
    bench.says(CONDITIONS)
    first, second = question_run_in(prefect_home), question_run_in(prefect_home)
    assert await conditions(bench, first) == await conditions(bench, second) == ("of Lyon",)
    assert (stages_run(first), stages_run(second)) == (1, 0)
    assert len(bench.server.requests) == 1
    (ran,), (restored,) = first.records, second.records
    assert (ran.restored, restored.restored) == (False, True)
    assert replace(restored, restored=False) == ran


async def test_what_a_dead_worker_of_the_same_run_paid_for_is_on_the_bill_of_that_run_and_of_no_other(
    bench: Bench, prefect_home: Home
) -> None:
    bench.says(CONDITIONS)
    twin = replace(QUESTION, id="8")

    async def restored(run: str, question: Question = QUESTION) -> bool:
        question_run = replace(question_run_in(prefect_home, run=run), question=question)
        await conditions(bench, question_run, question)
        (record,) = question_run.records
        return record.restored

    assert not await restored("tonight")
    assert not await restored("tonight")  # by whoever took the shard over
    assert await restored("tonight", twin)  # the same words, asked and paid for once
    assert await restored("tomorrow")
    assert await restored("")
    assert len(bench.server.requests) == 1


async def test_a_result_that_a_question_needs_twice_is_counted_once(bench: Bench, prefect_home: Home) -> None:
    bench.says(CONDITIONS)
    twice = question_run_in(prefect_home, run="tonight")
    await conditions(bench, twice)
    await conditions(bench, twice.for_candidate(2))
    await conditions(bench, twice)
    assert [record.restored for record in twice.records] == [False, True]
    assert len(bench.server.requests) == 1


async def test_restoring_finds_everything_or_says_what_is_missing(bench: Bench, prefect_home: Home) -> None:
    bench.says(CONDITIONS)
    with (
        in_question_run(QuestionRun(QUESTION, open_results(prefect_home), only_restores=True)),
        pytest.raises(NotCached),
    ):
        await augmentation_conditions(QUESTION, bench.backbone)
    await conditions(bench, question_run_in(prefect_home))
    with in_question_run(
        QuestionRun(QUESTION, open_results(prefect_home), only_restores=True)
    ) as question_run:
        assert await augmentation_conditions(QUESTION, bench.backbone) == ("of Lyon",)
    assert len(bench.server.requests) == 1 and stages_run(question_run) == 0


async def test_a_transient_failure_is_tried_again_and_the_bill_keeps_what_was_paid(
    bench: Bench, prefect_home: Home
) -> None:
    bench.server.script(reply("?"), server_error(503), server_error(500), reply(CONDITIONS))
    question_run = question_run_in(prefect_home)
    assert await conditions(of_ones_own(bench), question_run) == ("of Lyon",)
    assert len(bench.server.requests) == 4
    (record,) = question_run.records
    assert [call.parse for call in record.calls] == ["failed", "json"]
    assert record.notes == () and record.error == ""


class FailingOnce:
    """A store of stage results whose first write fails for a reason that may pass."""

    def __init__(self, inner: StageStore) -> None:
        self._inner = inner
        self.writes = 0

    async def read(self, key: str) -> Mapping[str, Any] | None:
        return await self._inner.read(key)

    async def write(self, key: str, result: Mapping[str, Any]) -> None:
        self.writes += 1
        if self.writes == 1:
            raise BackboneError("the store is not reachable", transient=True)
        await self._inner.write(key, result)


async def test_a_result_that_cannot_be_persisted_at_first_is_persisted_before_it_is_used(
    bench: Bench, prefect_home: Home
) -> None:
    bench.says(CONDITIONS, OTHER)
    results = open_results(prefect_home)
    store = FailingOnce(results)
    question_run = QuestionRun(QUESTION, results, TaskRuns(store))
    value = await conditions(bench, question_run)
    assert store.writes == 2
    assert [list(result["value"]) for result in kept_results(prefect_home).values()] == [list(value)]
    (record,) = question_run.records
    assert not record.restored and not record.error and list(record.value) == list(value)
    again = question_run_in(prefect_home)
    assert (await conditions(bench, again), stages_run(again)) == (value, 0)


async def test_what_the_backbone_has_retried_itself_is_not_tried_again_by_the_task(
    bench: Bench, prefect_home: Home
) -> None:
    bench.server.always(server_error(500))
    with pytest.raises(BackboneError) as caught:
        await conditions(bench, question_run_in(prefect_home))
    assert caught.value.transient and caught.value.retried
    assert len(bench.server.requests) == 1  # the bench's backbone has no retries


async def test_a_failure_that_stays_ends_after_the_retries_and_is_not_kept(
    bench: Bench, prefect_home: Home
) -> None:
    bench.server.always(server_error(500))
    question_run = question_run_in(prefect_home)
    with pytest.raises(BackboneError):
        await conditions(of_ones_own(bench), question_run)
    assert len(bench.server.requests) == 3
    (record,) = question_run.records
    assert record.error and record.value is None and not record.restored
    assert kept_results(prefect_home) == {}
    bench.server.always(reply(CONDITIONS))
    again = question_run_in(prefect_home)
    assert await conditions(bench, again) == ("of Lyon",)
    assert stages_run(again) == 1


@pytest.mark.parametrize("behaviour", [error(400, "this prompt is not allowed"), unauthorized()])
async def test_a_permanent_failure_is_not_tried_again(
    bench: Bench, prefect_home: Home, behaviour: object
) -> None:
    bench.server.always(behaviour)  # type: ignore[arg-type]
    with pytest.raises(BackboneError):
        await conditions(bench, question_run_in(prefect_home))
    assert len(bench.server.requests) == 1
    assert kept_results(prefect_home) == {}


async def test_an_unreadable_reply_is_a_result_like_any_other(bench: Bench, prefect_home: Home) -> None:
    bench.server.always(reply("?"))
    first, second = question_run_in(prefect_home), question_run_in(prefect_home)
    assert await conditions(bench, first) == await conditions(bench, second) == ()
    assert stages_run(second) == 0
    assert second.records[0].notes == first.records[0].notes != ()


async def test_a_stopped_evaluation_begins_no_stage_but_still_restores(
    bench: Bench, prefect_home: Home
) -> None:
    bench.says(CONDITIONS)
    stopped = question_run_in(prefect_home, stopped=lambda: True)
    with pytest.raises(Stopped):
        await conditions(bench, stopped)
    assert bench.server.requests == [] and stages_run(stopped) == 0
    await conditions(bench, question_run_in(prefect_home))
    assert await conditions(bench, question_run_in(prefect_home, stopped=lambda: True)) == ("of Lyon",)


@pytest.mark.parametrize("damage", ["half", "empty", "other JSON", "not text"])
async def test_a_persisted_result_that_is_broken_is_made_anew(
    bench: Bench, prefect_home: Home, damage: str
) -> None:
    bench.says(CONDITIONS, OTHER)
    await conditions(bench, question_run_in(prefect_home))
    ((key, whole),) = kept_results(prefect_home).items()
    broken = {"half": json.dumps(whole)[:20], "empty": "", "other JSON": "[1]", "not text": b"\xff\x00" * 50}
    replace_result(prefect_home, key, broken[damage])
    question_run = question_run_in(prefect_home)
    assert await conditions(bench, question_run) == ("sold something",)
    assert stages_run(question_run) == 1
    assert await conditions(bench, question_run_in(prefect_home)) == ("sold something",)
    assert len(bench.server.requests) == 2
    assert kept_results(prefect_home)[key]["value"] == ["sold something"]


async def test_task_runs_are_named_after_stage_database_and_question(
    bench: Bench, prefect_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flows.prefect.stage_task_runs, "BUSY_FACTOR", 0.0)
    bench.says(CONDITIONS, OTHER)

    async def work() -> UUID:
        with in_question_run(question_run_in(prefect_home)):
            await augmentation_conditions(QUESTION, bench.backbone)
            await augmentation_conditions(replace(QUESTION, text="Another?"), bench.backbone)
        return UUID(flow_run.id)

    runs = await recorded_task_runs(await in_flow(work), 2)
    assert {(run.name, run.state_name) for run in runs} == {
        ("augmentation_conditions · museum · 7", "Completed"),
        ("augmentation_conditions 2 · museum · 7", "Completed"),
    }


async def test_in_place_a_stage_neither_reads_nor_keeps_results(bench: Bench, prefect_home: Home) -> None:
    bench.says(CONDITIONS, OTHER)
    first = await bench.run(augmentation_conditions(QUESTION, bench.backbone))
    second = await bench.run(augmentation_conditions(QUESTION, bench.backbone))
    assert (first, second) == (("of Lyon",), ("sold something",))
    assert kept_results(prefect_home) == {}


async def test_a_bug_in_a_stage_is_not_taken_for_a_transient_failure(prefect_home: Home) -> None:
    calls: list[int] = []

    @stage()
    async def broken(question: Question) -> str:
        """Fail as code does that is wrong."""
        calls.append(1)
        raise ValueError("a bug")

    question_run = question_run_in(prefect_home)

    async def work() -> str:
        with in_question_run(question_run):
            return await broken(QUESTION)

    with pytest.raises(ValueError, match="a bug"):
        await in_flow(work)
    assert len(calls) == 1
    assert question_run.records[0].error == "a bug"

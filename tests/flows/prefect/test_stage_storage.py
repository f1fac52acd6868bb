"""Results of stages in remote storage: found by everybody, awaited by nobody else, and never taken for missing."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows.evaluate import runner as question_module
from flows.evaluate.demonstration_search import QuestionExtras
from flows.evaluate.pool import restore_answers
from flows.evaluate.runner import QuestionInputs, QuestionRunner, Tools
from flows.prefect import stage_results as results_module
from flows.prefect.stage_results import open_results
from flows.prefect.stage_task_runs import TaskRuns
from tasks.core.errors import ConfigurationError, StoreError
from tasks.core.outcome import Outcome
from tasks.core.records import Question
from tasks.database.schema import Schema
from tasks.settings.home import Home
from tasks.settings.pipeline import CandidateSettings
from tasks.stages.question_run import QuestionRun, in_question_run
from tasks.stages.stage import stage
from tests.support.prefect_home import in_flow
from tests.support.slow_storage import FarFileSystem, Network, network
from tests.support.stage_bench import stages_run

__all__ = ["network"]

pytestmark = pytest.mark.slow

URL = "far://bucket/stages"
QUESTION = Question("1", "How many?", "shop")
RAN: list[str] = []


def key_of(question: Question) -> str:
    key: str = counted.key({"question": question})  # type: ignore[attr-defined]
    return key


@stage()
async def counted(question: Question) -> str:
    """Note that it ran."""
    RAN.append(question.text)
    return question.text.upper()


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch, network: Network) -> Network:
    """The network to the storage that is named in CROSSCHECK_STAGES."""
    monkeypatch.setenv("CROSSCHECK_STAGES", URL)
    return network


async def answer(home: Home, question: Question = QUESTION) -> tuple[str, QuestionRun]:
    """Run the stage in a flow, with a store that remembers nothing but what is persisted."""

    async def work() -> tuple[str, QuestionRun]:
        results = open_results(home)
        with in_question_run(QuestionRun(question, results, TaskRuns(results))) as question_run:
            return await counted(question), question_run

    return await in_flow(work)


async def test_what_one_machine_persisted_another_restores(
    far: Network, prefect_home: Home, tmp_path: Path
) -> None:
    first, asked = await answer(prefect_home)
    other = Home(tmp_path / "another")
    again, restored = await answer(other)
    assert first == again == "HOW MANY?"
    assert (stages_run(asked), stages_run(restored)) == (1, 0)
    assert restored.records[0].restored
    assert not prefect_home.stage_results.exists()


async def test_neither_reading_nor_writing_keeps_the_event_loop_waiting(
    far: Network, prefect_home: Home
) -> None:
    """Were the loop kept waiting, nobody would ever open the network again."""

    async def work() -> str:
        store = open_results(prefect_home)
        far.open.clear()
        with in_question_run(QuestionRun(QUESTION, store, TaskRuns(store))):
            running = asyncio.ensure_future(counted(QUESTION))
            before = -1
            while not running.done():
                if far.calls > before and far.waiting:  # each round trip in turn
                    before = far.calls
                    far.open.set()
                    await asyncio.sleep(0)
                    far.open.clear()
                await asyncio.sleep(0.01)
        far.open.set()
        return await running

    assert await in_flow(work) == "HOW MANY?"


async def test_many_questions_are_restored_at_a_time(far: Network, prefect_home: Home) -> None:
    questions = [Question(str(number), f"Question {number}?", "shop") for number in range(200)]

    class Restorer:
        """Restores as a `QuestionRunner` does, with one stage for a pipeline."""

        def __init__(self) -> None:
            self.store = open_results(prefect_home)
            self.task_runs = TaskRuns(self.store)

        async def restore(self, question: Question) -> Outcome | None:
            return Outcome(question.id, "SELECT 1") if await self.store.read(key_of(question)) else None

    async def fill() -> None:
        with in_question_run(QuestionRun(QUESTION, None, TaskRuns(open_results(prefect_home)))):
            for question in questions[:20]:
                await counted(question)

    async def restore() -> dict[str, Outcome]:
        runner: Any = Restorer()
        far.open.clear()
        restoring = asyncio.ensure_future(restore_answers(questions, runner))
        while far.waiting < 20:
            await asyncio.sleep(0.01)
        far.open.set()
        return await restoring

    await in_flow(fill)
    found = await in_flow(restore)
    assert set(found) == {question.id for question in questions[:20]}


async def test_storage_that_cannot_be_reached_is_said_before_anything_is_asked(
    far: Network, prefect_home: Home
) -> None:
    far.cut = True
    with pytest.raises(ConfigurationError, match="network is down") as caught:
        await answer(prefect_home)
    assert URL in str(caught.value) and "No request was sent" in str(caught.value)
    assert RAN == []


async def test_storage_that_goes_away_is_an_error_and_no_missing_result(
    far: Network, prefect_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_module, "RETRY_DELAYS_S", (0.0, 0.0))
    await answer(prefect_home)

    async def work() -> None:
        store = open_results(prefect_home)
        assert await store.read("counted/absent") is None
        far.cut, before = True, far.calls
        with pytest.raises(StoreError, match="run the same command again to continue"):
            await store.read(key_of(QUESTION))
        assert far.calls == before + 3
        with in_question_run(QuestionRun(QUESTION, store, TaskRuns(store))), pytest.raises(StoreError):
            await counted(QUESTION)
        far.cut = False
        assert await store.read(key_of(QUESTION)) is not None

    await in_flow(work)
    assert RAN == ["How many?"]


async def test_a_question_whose_results_cannot_be_read_ends_the_run_and_is_not_taken_for_restored(
    far: Network, prefect_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_module, "RETRY_DELAYS_S", ())
    one_stage = SimpleNamespace(answer=lambda question, context: counted(question))
    monkeypatch.setattr(question_module, "pipeline_of", lambda settings: one_stage)
    settings: Any = SimpleNamespace(
        pipeline=SimpleNamespace(kind="one-stage", candidates=CandidateSettings()),
        benchmark=SimpleNamespace(timeout_s=1.0), backbone=SimpleNamespace(context_tokens=None),
        home=str(prefect_home.path),
    )  # fmt: skip
    nothing: Any = None

    async def work() -> None:
        store = open_results(prefect_home)
        database: Any = SimpleNamespace(schema=Schema("shop", (), (), dialect="sqlite"))
        inputs = QuestionInputs({"shop": database}, {"1": QuestionExtras()})
        runner = QuestionRunner(settings, inputs, Tools(nothing, nothing), store, TaskRuns(store))
        far.cut = True
        with pytest.raises(StoreError):
            await runner.restore(QUESTION)
        question_run = runner.question_run(QUESTION)
        outcome = await runner.run(question_run)
        assert outcome.failure is not None and stages_run(question_run) == 0
        assert outcome.failure.kind == "store_error"
        assert outcome.failure.retryable and outcome.failure.fatal

    await in_flow(work)
    assert RAN == []


async def test_a_short_interruption_is_waited_for(
    far: Network, prefect_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results_module, "RETRY_DELAYS_S", (0.05,) * 100)
    await answer(prefect_home)

    async def work() -> Any:
        store = open_results(prefect_home)
        far.cut, before = True, far.calls
        reading = asyncio.ensure_future(store.read(key_of(QUESTION)))
        while far.calls < before + 2:
            await asyncio.sleep(0.01)
        far.cut = False
        return await reading

    assert (await in_flow(work))["value"] == "HOW MANY?"


async def test_a_record_that_was_cut_off_is_made_anew(far: Network, prefect_home: Home) -> None:
    await answer(prefect_home)
    path = f"{URL}/{key_of(QUESTION)}"
    whole = FarFileSystem().cat_file(path)
    FarFileSystem().pipe_file(path, whole[: len(whole) // 2])
    _, question_run = await answer(prefect_home)
    assert stages_run(question_run) == 1
    _, question_run = await answer(prefect_home)
    assert stages_run(question_run) == 0


@pytest.mark.parametrize(("place", "said"), [
    ("nowhere://bucket/stages", "nowhere"),
    ("s3://bucket/stages", "s3fs"),
    ("ftp://127.0.0.1:1/stages", "refused"),
    ("s3://user:secret@bucket/stages", "has a password in it"),
    ("s3:///stages", "names no bucket or host"),
])  # fmt: skip
def test_a_place_that_cannot_be_used_is_said_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, prefect_home: Home, place: str, said: str
) -> None:
    monkeypatch.setenv("CROSSCHECK_STAGES", place)
    with pytest.raises(ConfigurationError, match=said) as caught:
        open_results(prefect_home)
    assert "CROSSCHECK_STAGES" in str(caught.value) and "secret" not in str(caught.value)

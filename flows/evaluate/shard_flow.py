"""The deployed `answer-shard` flow: a worker's part of an evaluation. Deployments that users made name this file."""

import os
from typing import Any

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run
from prefect.states import Completed

from flows.evaluate.deployment import as_prefect_state, deployed_run, open_home
from flows.evaluate.pool import Answers, answer_all
from flows.evaluate.preparation import prepare
from flows.evaluate.runner import Resources
from flows.evaluate.shards import check_shared, hand_over, shared_inputs
from flows.prefect.artifacts import progress_artifact
from flows.prefect.flow_runs import UNANSWERED, wait_until_recorded
from flows.runtime.control import Control
from tasks.core.outcome import Outcome
from tasks.core.records import Question
from tasks.core.wording import counted
from tasks.settings.evaluation import EvaluationSettings, Shard
from tasks.settings.home import Home, find_data


@flow(name="answer-shard", flow_run_name="{shard.number} of {shard.of} of {shard.run}", persist_result=False)
async def answer_shard(settings: EvaluationSettings, shard: Shard) -> State[Any]:
    """Answer one shard of an evaluation's questions. Evaluations start it; it is not started manually.

    Args:
        settings: Settings of the evaluation; its folders are replaced by the worker's.
        shard: The shard's number and evaluation.
    """
    return await as_prefect_state(_run_shard(settings, shard))


async def _run_shard(settings: EvaluationSettings, shard: Shard) -> State[Any]:
    home = await open_home()
    control = Control()
    with deployed_run(home, control):
        control.begin_flow_run(str(flow_run.id))
        answers = await _answer(_on_this_machine(settings, home), shard, control)
    if not answers.outcomes:
        return Completed(message="Every question is answered.")
    unanswered = counted(len(answers.outcomes), "question")
    return Completed(name=UNANSWERED, message=f"{unanswered} without an answer.")


def _on_this_machine(settings: EvaluationSettings, home: Home) -> EvaluationSettings:
    """Return the settings with this machine's folders and this shard's part of the concurrency."""
    backbone = settings.backbone
    share = max(1, backbone.concurrency // settings.shards)
    data = str(find_data()) if os.environ.get("CROSSCHECK_DATA") else settings.data
    shared = backbone.model_copy(update={"concurrency": share})
    return settings.model_copy(update={"backbone": shared, "home": str(home.path), "data": data, "shards": 1})


async def _answer(settings: EvaluationSettings, shard: Shard, control: Control) -> Answers:
    """Answer the shard's questions, and hand over and return those that failed."""
    preparation = prepare(settings, control.progress)
    questions = preparation.answerable[shard.number - 1 :: shard.of]
    async with (
        Resources.open(settings, control) as resources,
        progress_artifact(str(shard), len(questions)) as count_question,
    ):
        assert resources.results is not None
        await check_shared(resources.results, shard, shared_inputs(preparation))

        async def count(question: Question, outcome: Outcome) -> None:
            count_question()

        runner = resources.runner(preparation.inputs, run=shard.run)
        answers = await answer_all(questions, runner, control, count)
        recorded = await wait_until_recorded(answers.task_runs, control)
        failed = {name: outcome for name, outcome in answers.outcomes.items() if outcome.failure}
        # failures are never persisted; answers are restored from persisted stage results
        result = Answers(failed, task_runs=answers.task_runs, recorded=recorded, fatal=answers.fatal)
        await hand_over(resources.results, shard.run, str(flow_run.id), result)
    return result

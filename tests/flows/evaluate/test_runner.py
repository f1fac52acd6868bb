"""A question's run through a pipeline ends in an outcome, whatever happens to it."""

from flows.evaluate.runner import QuestionInputs, QuestionRunner, Tools
from tasks.backbone.metered import MeteredBackbone
from tasks.backbone.offline import OfflineBackbone
from tasks.core.records import Question
from tasks.database.sandbox.workers import SqlWorkers
from tasks.settings.assemble import evaluation_settings
from tasks.settings.choices import EvaluationChoice


async def test_a_question_that_cannot_be_prepared_is_a_failure_and_no_exception() -> None:
    settings = evaluation_settings(
        EvaluationChoice(benchmark="demo", backbone="offline", pipeline="zero-shot")
    )
    tools = Tools(MeteredBackbone(OfflineBackbone()), SqlWorkers(1))
    runner = QuestionRunner(settings, QuestionInputs({}, {}), tools)
    question = Question("1", "Which museums are there?", "museum")
    outcome = await runner.run(runner.question_run(question))
    assert outcome.failure is not None and outcome.failure.kind == "internal_error"
    assert outcome.question_id == "1"
    assert await runner.restore(question) is None

"""What a question run says of its stages."""

from tasks.stages.question_run import QuestionRun


def stages_run(question_run: QuestionRun) -> int:
    """Return how many stages ran, restored ones apart."""
    return sum(not record.restored for record in question_run.records)

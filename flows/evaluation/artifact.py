"""Result of an evaluation as an artifact on the page of its flow run in Prefect."""

from flows.orchestration.artifacts import show_markdown
from flows.report.result import EvaluationResult
from tasks.core.wording import percent_and_counts
from tasks.documents.markdown import markdown
from tasks.tracking.evaluation import EvaluationRun
from tasks.tracking.run_display.document import run_document

KEY = "evaluation"


async def show_in_prefect(run: EvaluationRun, result: EvaluationResult) -> None:
    """Create the artifact: score, stages, failures, cost, and the commands to continue with."""
    record = result.record
    commands = [f"crosscheck show {run.run_id} --wrong", f"crosscheck report {run.run_id} --open"]
    if record.retryable:
        commands.append(f"crosscheck rerun {run.run_id}")
    text = f"{markdown(run_document(record))}\n```\n{chr(10).join(commands)}\n```\n"
    left = f", {record.retryable:,} without an answer" if record.retryable else ""
    await show_markdown(KEY, text, f"EX {percent_and_counts(record.score)}{left}, run {run.run_id}")

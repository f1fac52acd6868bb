"""Result of an evaluation as an artifact on the page of its flow run in Prefect."""

from flows.orchestration.artifacts import show_markdown
from flows.report.result import EvaluationResult
from tasks.core.wording import percent_and_counts
from tasks.tracking.evaluation import EvaluationRun
from tasks.tracking.summary import markdown

KEY = "evaluation"


async def show_in_prefect(run: EvaluationRun, result: EvaluationResult) -> None:
    """Create the artifact: score, stages, failures, cost, and the commands to continue with."""
    report = result.report
    ended = f"\n**Stopped asking: {result.fatal}**\n" if result.fatal else ""
    commands = [f"crosscheck show {run.run_id} --wrong", f"crosscheck report {run.run_id} --open"]
    if report.retryable:
        commands.append(f"crosscheck rerun {run.run_id}")
    text = f"{markdown(run, report, result.summary['seconds'])}{ended}\n```\n{chr(10).join(commands)}\n```\n"
    left = f", {report.retryable:,} without an answer" if report.retryable else ""
    await show_markdown(KEY, text, f"EX {percent_and_counts(report.score)}{left}, run {run.run_id}")

"""Result of an evaluation as an artifact on the page of its flow run in Prefect."""

import logging

from prefect.artifacts import acreate_markdown_artifact

from flows.report.result import EvaluationResult
from tasks.core.wording import percent_and_counts
from tasks.tracking.evaluation import EvaluationRun
from tasks.tracking.summary import markdown

log = logging.getLogger(__name__)

KEY = "evaluation"


async def show_in_prefect(run: EvaluationRun, result: EvaluationResult) -> None:
    """Create the artifact: score, stages, failures, cost, and the commands to continue with.

    An artifact that cannot be written is logged: it must not lose a result.
    """
    report = result.report
    ended = f"\n**Stopped asking: {result.fatal}**\n" if result.fatal else ""
    commands = [f"crosscheck show {run.run_id} --wrong", f"crosscheck report {run.run_id} --open"]
    if report.retryable:
        commands.append(f"crosscheck rerun {run.run_id}")
    text = f"{markdown(run, report, result.summary['seconds'])}{ended}\n```\n{chr(10).join(commands)}\n```\n"
    left = f", {report.retryable:,} without an answer" if report.retryable else ""
    try:
        await acreate_markdown_artifact(
            text, key=KEY, description=f"EX {percent_and_counts(report.score)}{left}, run {run.run_id}"
        )
    except Exception as error:
        log.warning("Prefect does not show the result of run %s: %s", run.run_id, error)

"""Result of an evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.scoring.report import Report

FINISHED, MENDABLE_FAILURES = 0, 3


@dataclass(frozen=True)
class EvaluationResult:
    """Result of an evaluation.

    Attributes:
        report: scores and metrics.
        summary: the object that `--json` prints.
        notes: remarks for the user, in sentences.
        mlflow_command: shell command that starts MLflow's UI.
        mlflow_page: address of this run in it.
        prefect_command: shell command that starts Prefect's UI.
        prefect_page: address of this flow run in it.
        fatal: error message that ended asking, "" if all questions were asked.
    """

    report: Report
    summary: Mapping[str, Any]
    notes: tuple[str, ...]
    mlflow_command: str
    mlflow_page: str
    prefect_command: str
    prefect_page: str
    fatal: str = ""

    @property
    def exit_code(self) -> int:
        """0 when finished; 3 when a re-run can answer some of the failed questions."""
        return MENDABLE_FAILURES if self.report.mendable else FINISHED

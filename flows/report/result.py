"""What came of an evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tasks.scoring.report import Report

FINISHED, MENDABLE_FAILURES = 0, 3


@dataclass(frozen=True)
class EvaluationResult:
    """What came of an evaluation.

    Attributes:
        report: every score.
        summary: the object that `--json` prints.
        notes: what a user should know beside the scores, in sentences.
        mlflow_command: opens MLflow's UI.
        mlflow_page: where this run is in it.
        prefect_command: opens Prefect's UI.
        prefect_page: where this flow run is in it.
        fatal: why not every question was asked, "" when all were.
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

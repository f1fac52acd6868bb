"""Result of an evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flows.report.exit_codes import ExitCode
from tasks.scoring.report import Report

T = TypeVar("T")


@dataclass(frozen=True)
class EvaluationResult:
    """Result of an evaluation.

    Attributes:
        report: scores and metrics.
        summary: the object that `--json` prints.
        notes: remarks for the user, in sentences.
        mlflow_command: shell command that starts MLflow's UI; where a server answers, a sentence that says so.
        mlflow_page: address of this run in it.
        prefect_command: shell command that starts Prefect's UI.
        prefect_page: address of this flow run in it.
        fatal: error message that ended asking, "" if all questions were asked.
        before: id of the run before it on the same benchmark, "" if there is none.
        mlflow_served: whether MLflow's server is running already, so that there is no command to start it.
    """

    report: Report
    summary: Mapping[str, Any]
    notes: tuple[str, ...]
    mlflow_command: str
    mlflow_page: str
    prefect_command: str
    prefect_page: str
    fatal: str = ""
    before: str = ""
    mlflow_served: bool = False

    @property
    def exit_code(self) -> int:
        """0 when finished; 3 when a re-run can answer some of the failed questions."""
        return ExitCode.TRY_AGAIN if self.report.mendable else ExitCode.DONE


class Unsearched(Generic[T]):
    """The result of a flow, which Prefect does not search for futures.

    Prefect walks through the dataclasses and containers that a flow returns: seconds for a thousand questions.

    Attributes:
        value: the result.
    """

    def __init__(self, value: T) -> None:
        self.value = value

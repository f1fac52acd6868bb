"""Result of an evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flows.report.exit_codes import ExitCode
from tasks.scoring.report import Report

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ui:
    """Where a run is shown: in MLflow, or in Prefect.

    Attributes:
        command: shell command that starts the UI; where a server answers, a sentence that says so.
        page: address of the run in it, "" if it is not there.
        served: whether its server is running already, so that there is no command to start it.
    """

    command: str = ""
    page: str = ""
    served: bool = False


@dataclass(frozen=True)
class EvaluationResult:
    """Result of an evaluation.

    Attributes:
        report: scores and metrics.
        summary: the object that `--json` prints.
        notes: remarks for the user, in sentences.
        mlflow: where MLflow shows the run.
        prefect: where Prefect shows its flow run; empty without one.
        fatal: error message that ended asking, "" if all questions were asked.
        before: id of the run before it on the same benchmark, "" if there is none.
    """

    report: Report
    summary: Mapping[str, Any]
    notes: tuple[str, ...]
    mlflow: Ui = Ui()
    prefect: Ui = Ui()
    fatal: str = ""
    before: str = ""

    @property
    def exit_code(self) -> int:
        """0 when finished; 3 when a re-run can answer some of the failed questions, or a user's own metric failed."""
        unanswered = self.report.retryable or self.summary.get("rerun", {}).get("unanswered")
        unmeasured = any(found.failed for found in self.report.measurements.values())
        return ExitCode.TRY_AGAIN if unanswered or unmeasured else ExitCode.DONE


class OpaqueResult(Generic[T]):
    """The result of a flow, which Prefect does not search for futures.

    Prefect walks through the dataclasses and containers that a flow returns: seconds for a thousand questions.

    Attributes:
        value: the result.
    """

    def __init__(self, value: T) -> None:
        self.value = value

"""Result of an evaluation, with its comparison with the run before."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tasks.core.errors import CrosscheckError, ExitCode
from tasks.core.wording import counted, percent_and_counts
from tasks.results.run_record import RunRecord
from tasks.scoring.report import Report
from tasks.settings.home import Home

if TYPE_CHECKING:
    from tasks.results.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Ui:
    """Where a run is shown: in MLflow, or in Prefect."""

    command: str = ""  # shell command that starts the UI; where a server answers, a sentence that says so
    page: str = ""  # address of the run in it, "" if it is not there
    runs: str = ""  # address of the list of runs with score, cost and verdict, "" if there is none
    served: bool = False  # whether its server is running already, so that there is no command to start it


NOWHERE = Ui()


@dataclass(frozen=True)
class EvaluationResult:
    """Result of an evaluation."""

    report: Report  # every question with its verdicts, and what the metrics found
    record: RunRecord  # the record of the run, which `--json` prints
    mlflow: Ui = NOWHERE  # where MLflow shows the run
    prefect: Ui = NOWHERE  # where Prefect shows its flow run; empty without one

    @property
    def still_failed(self) -> tuple[int, int]:
        """Of a re-run, how many of the selected questions failed again, and how many were selected; else (0, 0)."""
        facts = self.record.rerun or {}
        return facts.get("still_failed", 0) + facts.get("kept", 0), facts.get("selected", 0)

    @property
    def in_words(self) -> str:
        """The score, and how many questions have no answer; of a re-run first how many failed again."""
        failed, selected = self.still_failed
        again = f"{failed:,} of {counted(selected, 'question')} still failed; " if failed else ""
        ex, unanswered = self.record.score, self.record.unanswered
        score = f"EX {percent_and_counts(ex)}" if ex.total else "nothing to score"
        left = f"; {counted(unanswered, 'question')} without an answer" if unanswered else ""
        return f"{again}{score}{left}"

    @property
    def exit_code(self) -> int:
        """0 when finished; 3 when a re-run can answer some failed questions; else 2 when a user's own metric failed."""
        if self.record.retryable or (self.record.rerun or {}).get("no_new_answer"):
            return ExitCode.TRY_AGAIN
        unmeasured = any(found.failed for found in self.report.measurements.values())
        return ExitCode.BAD_INPUT if unmeasured else ExitCode.DONE


def compared_with_run_before(run_id: str, home: Home) -> "Comparison | None":
    """Compare the last finished run of the same questions before a run (A) with it (B).

    None if there is none, or if the warehouse does not have both, or refuses them.
    """
    from tasks.results.compare import compare
    from tasks.results.warehouse.run_names import run_before
    from tasks.results.warehouse.runs import Warehouse

    warehouse = Warehouse(home.warehouse)
    try:
        before = run_before(run_id, warehouse.runs())
        return compare(warehouse.read_run(before), warehouse.read_run(run_id)) if before else None
    except CrosscheckError:  # such as databases that changed between them: `crosscheck compare` says so
        return None

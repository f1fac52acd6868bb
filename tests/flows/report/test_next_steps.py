"""What a summary proposes to do next."""

from dataclasses import replace

from flows.report.result import EvaluationResult, Ui
from flows.report.summary import next_steps
from tasks.tracking.build_record import record_of
from tests.tasks.tracking.samples import make_report, make_run

PAGE = "http://127.0.0.1:5000/#/experiments/1"
EVALUATED = EvaluationResult(make_report(5), record_of(make_run(), make_report(5)), Ui("any words", PAGE))


def test_mlflow_is_to_be_started_unless_a_server_answers() -> None:
    assert any(line.startswith("crosscheck up") for line in next_steps(EVALUATED))
    served = next_steps(replace(EVALUATED, mlflow=Ui("any words", PAGE, served=True)))
    assert not any("crosscheck up" in line for line in served) and served[-1] == PAGE

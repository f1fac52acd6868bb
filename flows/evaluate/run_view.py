"""A run with the questions that are not right, as `crosscheck show` prints it.

It imports no client of a model: that would take a third of the command's time.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tasks.core.errors import CrosscheckError
from tasks.pages.run_page import RunView, causes_of
from tasks.results.build_record import record_of
from tasks.results.run_record import FINISHED, JsonDocument, RunRecord, at
from tasks.scoring.scores import QuestionScore

if TYPE_CHECKING:
    from flows.runtime.folders import Folders
    from tasks.database.schema import Schema


OF_STORED = ("cost", "stage_costs", "degradation", "failures", "failure_messages", "gold_faults")
"""What the record of a run that has not finished says of the questions that are stored so far."""


def view_run(record: RunRecord, folders: "Folders", *, by_question: bool = True) -> RunView:
    """Return what is shown of a run, with why each wrong question is wrong if the benchmark's files can be read.

    Without `by_question`, a finished run is shown without these causes, and no file is read. A run that is not finished
    has no score, and `OF_STORED` is counted here. The metric "errors", questions by cause, is computed if the record
    lacks it.
    """
    if not by_question and record.status in FINISHED and "errors" in record.metrics:
        return RunView(record)
    from flows.evaluate.paper_tables import schemas_of

    schemas: Mapping[str, Schema] = {}
    problem = ""
    try:
        schemas = schemas_of(record, folders)
    except CrosscheckError as error:
        problem = str(error)
    if record.status not in FINISHED:
        stored = record_of(record, record.rows, record.status)
        record = record.model_copy(update={name: getattr(stored, name) for name in OF_STORED})
    view = RunView(record, schemas, problem)
    if "errors" in record.metrics:
        return view
    causes = Counter(name for row in record.rows for name in causes_of(view, row))
    metrics = {**record.metrics, "errors": dict(causes)}
    return replace(view, record=record.model_copy(update={"metrics": metrics}))


class ListedQuestion(JsonDocument):
    """A question in a list of a run's questions."""

    question_id: str = at("question", "id")
    database: str = at("question", "database_id")
    difficulty: str | None = at("question", "difficulty")
    question: str = at("question", "text")
    status: str
    causes: tuple[str, ...] = ()

    @classmethod
    def of(cls, view: RunView, row: QuestionScore) -> "ListedQuestion":
        """Return a question of a run with the causes that make it wrong."""
        return cls.model_validate(row).model_copy(update={"causes": causes_of(view, row)})

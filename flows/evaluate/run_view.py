"""A run with the questions that are not right, as `crosscheck show` prints it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from flows.evaluate.paper_tables import schemas_of
from flows.runtime.folders import Folders
from tasks.core.errors import CrosscheckError
from tasks.database.schema import Schema
from tasks.results.build_record import record_of
from tasks.results.run_record import FINISHED, JsonDocument, RunRecord, at
from tasks.scoring.build_report import build_report
from tasks.scoring.metrics.causes import classify, is_unanswered
from tasks.scoring.report import QuestionScore, is_right


@dataclass(frozen=True)
class RunView:
    """A run with its questions."""

    # with its questions; of a run that is not finished, made from the questions that it has so far
    record: RunRecord
    # schemas of its databases; {} if the benchmark's files cannot be read
    schemas: Mapping[str, Schema] = field(default_factory=dict, repr=False)
    problem: str = ""  # why there are no schemas, and so no causes; "" if there are

    @property
    def wrong(self) -> tuple[QuestionScore, ...]:
        """Scored questions whose answer is wrong."""
        rule = self.record.rule
        return tuple(
            row
            for row in self.record.rows
            if row.executable and row.outcome.sql and not is_right(row.final, rule)
        )

    @property
    def unanswered(self) -> tuple[QuestionScore, ...]:
        """Questions without a SQL; they count as wrong."""
        return tuple(row for row in self.record.rows if is_unanswered(row))

    @property
    def causes(self) -> dict[str, int]:
        """Wrong questions by cause, most frequent first; one question may have several."""
        causes = self.record.metrics.get("errors") or {}
        return {name: count for name, count in sorted(causes.items(), key=lambda each: -each[1]) if count}


def causes_of(view: RunView, row: QuestionScore) -> tuple[str, ...]:
    """Return why a question is wrong; () if it is right or the schema of its database is unknown."""
    schema = view.schemas.get(row.question.database_id)
    return classify(row, view.record.rule, schema) if schema else ()


def view_run(record: RunRecord, folders: Folders) -> RunView:
    """Return what is shown of a run; without the benchmark's files, everything but the causes of single questions."""
    schemas: dict[str, Schema] = {}
    problem = ""
    try:
        schemas = schemas_of(record, folders)
    except CrosscheckError as error:
        problem = str(error)
    if record.status not in FINISHED:
        rule, benchmark = record.rule, record.settings_of("benchmark")
        report = build_report(record.rows, rule=rule, schemas=schemas, benchmark=benchmark)
        record = record_of(record, report, record.status)
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

"""The record of a run: what an evaluation found, in one versioned shape.

`crosscheck evaluate --json`, `rerun`, `score`, `show` and `runs` print it, the Python interface returns it, MLflow's
summary.json and the warehouse store it, and every display is made from it. docs/run-record.schema.json is its JSON
schema. What is not known is null, never 0.
"""

import datetime
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from tasks.scoring.cost import Cost, Estimate
from tasks.scoring.degradation import Degradation
from tasks.scoring.report import LinkingScore, StageScore
from tasks.scoring.score import Accuracy, Score
from tasks.tracking.evaluation import FINISHED


def _in_utc(moment: datetime.datetime) -> datetime.datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


Moment = Annotated[datetime.datetime, AfterValidator(_in_utc)]
"""Point in time with its time zone; DuckDB's have none and are in UTC."""


@dataclass(frozen=True, slots=True)
class TaskRunCounts:
    """Prefect task runs of an evaluation: how many ran, and how many its server recorded (None: unknown)."""

    task_runs: int | None = None
    recorded: int | None = None


@dataclass(frozen=True, slots=True)
class Tracked:
    """Where MLflow has the run."""

    tracking_uri: str | None = None  # the store, without password; None where the run was not sent to one
    run_id: str | None = None  # MLflow's id of the run; None when it could not be made
    experiment_id: str | None = None  # MLflow's id of its experiment; None when it could not be made
    # what kept the run from being logged in full, and what to do about it; "" where nothing did
    problem: str = ""


class RunHeader(BaseModel):
    """A run in a list of runs. What is known only at its end is null before."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    run_id: str
    """Crosscheck's id of the run."""
    benchmark: str
    """Name of the benchmark."""
    revision: str
    """Revision of the benchmark's files."""
    backbone: str
    """Name of the model's settings; of a scored file, the name of the system."""
    pipeline: str
    """Name of the pipeline; "predictions" for a scored file."""
    rule: str
    """Comparison rule of `ex`."""
    status: str
    """running, complete, partial (an error ended it early), interrupted (by the user), failed or killed."""
    started: Moment
    """When the run began."""
    finished: Moment | None = None
    """When the run ended."""
    seconds: float | None = None
    """Wall time of the questions, without the start of the command."""
    questions: int | None = None
    """Questions that were selected."""
    scored: int | None = None
    """Questions whose database and gold are there."""
    answered: int | None = None
    """Questions with a SQL, those among them that could not be scored included."""
    unanswered: int | None = None
    """Scored questions without a SQL; they count as wrong."""
    retryable: int | None = None
    """Unanswered questions that `crosscheck rerun` can answer."""
    ex: float | None = None
    """Execution accuracy of the final answers under `rule`: correct / total, 0 to 1."""
    correct: int | None = None
    """Right answers."""
    total: int | None = None
    """Denominator of `ex`: all scored questions, those without an answer included."""
    low: float | None = None
    """Lower bound of Wilson's 95 % interval of `ex`."""
    high: float | None = None
    """Upper bound of that interval."""
    tags: dict[str, str] = {}
    """Tags of `--tag`, with the run's name and note; further ones say what is special, such as `rerolled`."""
    mlflow_run_id: str | None = None
    """Id of the run in MLflow; null where it is not logged."""
    rows_removed: Moment | None = None
    """When `crosscheck clean` removed the run's questions; null: they are there."""
    question_set: str = ""
    """Equal for finished runs of the same questions of one file."""

    @property
    def is_finished(self) -> bool:
        """Whether it came to its end, with or without an answer to every question."""
        return self.status in FINISHED

    @property
    def combination(self) -> tuple[str, ...]:
        """Its benchmark, backbone, pipeline and questions."""
        return (self.benchmark, self.backbone, self.pipeline, self.revision, self.question_set)

    @property
    def accuracy(self) -> Accuracy | None:
        """Its execution accuracy with the counts; None before its end."""
        return None if self.correct is None or self.total is None else Accuracy(self.correct, self.total)


class RunRecord(RunHeader):
    """The record of a run."""

    schema_version: Literal[1] = 1
    """Version of this form of a record."""
    scores: dict[str, Score] = {}
    """Execution accuracy by rule and by score variant, the headline rule first. A variant is the score by an answer
    key, or without some questions: "bird", "strict", "arcwise", "arcwise_strict"."""
    stages: tuple[StageScore, ...] = ()
    """Execution accuracy after each stage of the pipeline."""
    by_difficulty: dict[str, Accuracy] = {}
    """Execution accuracy by the benchmark's grades of difficulty."""
    by_database: dict[str, Accuracy] = {}
    """Execution accuracy by database."""
    links: tuple[LinkingScore, ...] = ()
    """Schema linking by link, in the pipeline's order."""
    cost: Cost = Cost()
    """Calls, tokens and money of the whole run."""
    forecast: Estimate | None = None
    """Estimated before the first question, without cached replies: to compare with `cost.from_scratch_usd`; null for
    free models and those without a price."""
    stage_costs: dict[str, Cost] = {}
    """Calls, tokens and money of each stage."""
    degradation: Degradation = Degradation()
    """Stages that fell back, failed or were skipped."""
    failures: dict[str, int] = {}
    """Scored questions without an answer, by the kind of the failure."""
    failure_messages: dict[str, str] = {}
    """The most frequent message of each kind."""
    fatal: str = ""
    """The error that ended the run before every question was sent; empty for none."""
    missing_databases: dict[str, int] = {}
    """Questions that are not scored because their database is missing, by database."""
    without_gold: int = 0
    """Questions that are not scored because they have no gold."""
    not_executable: dict[str, int] = {}
    """Questions of which only the schema is available, by the stage that would have executed SQL."""
    gold_faults: dict[str, str] = {}
    """Questions whose gold does not run, with its status; they count as wrong."""
    metrics: dict[str, Any] = {}
    """What each metric found; null where it does not apply."""
    remarks: tuple[str, ...] = ()
    """What the metrics found, and where demonstrations are from, in sentences."""
    notes: tuple[str, ...] = ()
    """What a user should know of this run, in sentences."""
    changes: tuple[str, ...] | None = None
    """Settings that differ from the defaults of these names, `key=value`; null: the defaults cannot be read."""
    translations: tuple[str, ...] = ()
    """What was translated between SQL dialects for the score."""
    engine: str = ""
    """Name and version of what executed the SQL."""
    question_sha256: str = ""
    """sha256 of the benchmark's file of questions."""
    keys: dict[str, str] = {}
    """sha256 of each answer key beside the official one, by name."""
    version: str | None = None
    """Version of Crosscheck."""
    git_commit: str | None = None
    """Git commit of Crosscheck's code; null where it is not a repository."""
    prefect: TaskRunCounts = TaskRunCounts()
    """Task runs of the evaluation, and how many of them Prefect's server recorded."""
    mlflow: Tracked = Tracked()
    """Where MLflow has the run."""
    rerun: dict[str, Any] | None = None
    """Of a re-run: what it changed of its parent."""
    recorded: dict[str, Any] | None = None
    """The recording that the run wrote."""
    replay: dict[str, Any] | None = None
    """Replies that were served from a recording."""
    predictions: dict[str, Any] | None = None
    """Of a scored file: its path, format and sha256."""
    judge: dict[str, Any] | None = None
    """A model's opinions on the answers."""
    same_as: str | None = None
    """Id of an earlier run with equal settings and answers, if nothing was paid."""

    @property
    def score(self) -> Score:
        """The headline score."""
        return self.scores.get(self.rule) or Score(0, 0, rule=self.rule)

    @property
    def variants(self) -> dict[str, Score]:
        """The score of each variant under the headline rule."""
        return {name: score for name, score in self.scores.items() if score.variant == name}

    @property
    def headline_link(self) -> LinkingScore | None:
        """The link that the SQL was generated from: "both", else the last one; None without linking."""
        by_name = {link.name: link for link in self.links}
        return by_name.get("both") or (self.links[-1] if self.links else None)


def read_record(text: str) -> RunRecord:
    """Read a record from JSON text."""
    return RunRecord.model_validate(json.loads(text))


def json_of(record: RunRecord) -> Mapping[str, Any]:
    """Return a record as plain JSON."""
    return record.model_dump(mode="json")

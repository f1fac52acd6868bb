"""The record of a run: what an evaluation found, in one versioned shape.

`crosscheck evaluate --json`, `rerun`, `score`, `show` and `runs` print it, the Python interface returns it, MLflow's
summary.json and the warehouse store it, and every display is made from it. docs/run-record.schema.json is its JSON
schema. What is not known is null, never 0.
"""

import datetime
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetPydanticSchema,
    TypeAdapter,
)

from tasks.core.described import Described
from tasks.core.errors import ExitCode
from tasks.core.wording import DASH, counted, counts, interval, percent, percent_and_counts, storable
from tasks.documents.model import Table
from tasks.scoring.cost import Cost, Estimate, in_words
from tasks.scoring.degradation import Degradation
from tasks.scoring.scores import (
    Accuracy,
    LinkingScore,
    Measurement,
    QuestionScore,
    Score,
    StageScore,
    is_right,
)

Kind = Literal["benchmark", "backbone", "pipeline"]
KINDS: tuple[Kind, ...] = ("benchmark", "backbone", "pipeline")
REROLLED, ORACLE, TRANSLATED = "rerolled", "oracle", "gold_translated"
"""Tags of runs that must not be ranked, as flows write them."""
DATABASES_CHANGED = "databases_changed"
"""Tag of runs during which databases changed on their server: which."""
COPIES_GOLD = "copies_gold"
"""Key in a run's backbone whose predictions are the text of the gold SQL."""
GENERATED_DESCRIPTIONS = "generated_descriptions"
"""Tag of the runs whose prompts may show column descriptions that a backbone wrote: how many, which, and a digest."""
TRAINING_QUESTIONS = "training_questions"
"""Tag of the runs whose prompts show demonstrations: from how many training questions, and a digest of them."""
PREDICTIONS = "predictions"
"""Kind and name of the pipeline of a run that scores a file of predictions made elsewhere."""
NIGHT = "night"
"""Tag of the runs of a nightly run: its name."""
VERDICT = "verdict"
"""Tag of the runs of a nightly run: the night's verdict on it."""
NOISE, REPEAT = "noise", "repeat"
"""Tags of the repeats of a run: the run's id, and the number of the repeat, from 1."""
FINISHED = ("complete", "partial")
"""How a run ended that has a report: every question was asked, or not."""
Unfinished = Literal["interrupted", "failed", "killed"]
"""How a run ended that has no report: the user stopped it, an error ended it, or its process was killed."""


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


class RunHeader(Described, BaseModel):
    """A run in a list of runs. What is known only at its end is null before."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    def name(self) -> str:
        """What was evaluated."""
        return f"{self.backbone} | {self.pipeline}"

    @property
    def label(self) -> str:
        """The run's name in MLflow: the name that the user gave it, else what was evaluated.

        The name of the night, which is a date with or without a time, stands before that of a nightly run.
        """
        night = self.tags.get(NIGHT, "").replace("T", " ", 1).removesuffix("Z")
        repeat = f"(repeat {self.tags[REPEAT]})" if REPEAT in self.tags else ""
        rerun = "(re-run)" if "parent_run_id" in self.tags else ""
        return " ".join(part for part in (night, self.tags.get("name") or self.name, repeat, rerun) if part)

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


AsTheyAre = GetPydanticSchema(lambda source, handler: handler(Any))
"""Marks records that are not validated again."""


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
    """Calls, tokens and money of the whole run; of one that has not finished, of the questions that are stored."""
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
    """The most frequent message of each kind, with "most often" before it where there are several."""
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
    translations: tuple[str, ...] = ()
    """What was translated between SQL dialects for the score."""
    engine: str = ""
    """Name and version of what executed the SQL."""
    question_sha256: str = ""
    """sha256 of the benchmark's file of questions."""
    keys: dict[str, str] = {}
    """sha256 of each answer key beside the official one, by name."""
    sources: dict[str, str] = {}
    """Beginning of the sha256 of each prompt template and each of the user's own files, versions of own packages."""
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
    """The recording that the run wrote; with `refused`, why it was not written."""
    replay: dict[str, Any] | None = None
    """Replies that were served from a recording."""
    predictions: dict[str, Any] | None = None
    """Of a scored file: its path, format and sha256."""
    judge: dict[str, Any] | None = None
    """A model's opinions on the answers."""
    same_as: str | None = None
    """Id of an earlier run with equal settings and answers, if nothing was paid."""
    settings: dict[str, Any] = Field({}, exclude=True, repr=False)
    """The models of benchmark, backbone and pipeline as plain JSON under these names, without secrets."""
    question_file: str = Field("", exclude=True)
    """Path of the questions of the evaluated split."""
    questions_in_benchmark: int | None = Field(None, exclude=True)
    """How many questions the file has; None: unknown."""
    user: str | None = Field(None, exclude=True)
    """Login name of the user who started it; None: unknown."""
    databases: dict[str, str] = Field({}, exclude=True, repr=False)
    """Digest of each database that it used, by the benchmark's name of it."""
    inputs: str = Field("", exclude=True)
    """Digest of everything that decides its result (`flows.evaluate.identical_run`); "": unknown."""
    measurements: Annotated[dict[str, Measurement], AsTheyAre] = Field({}, exclude=True, repr=False)
    """What the metrics that apply found, by name; {}: the run was read from the warehouse (`Warehouse.tables_of`)."""
    rows: Annotated[tuple[QuestionScore, ...], AsTheyAre] = Field((), exclude=True, repr=False)
    """The questions written so far, in benchmark order once finished; (): they were not read."""
    before: Any = Field(None, exclude=True, repr=False)
    """The `Comparison` of the previous run (A) with this one (B); None: there is none, or the run was read."""

    @property
    def tables(self) -> tuple[Table, ...]:
        """What the metrics add to `--details`."""
        return tuple(table for measurement in self.measurements.values() for table in measurement.tables)

    @property
    def still_failed(self) -> tuple[int, int]:
        """Of a re-run, how many of the selected questions failed again, and how many were selected; else (0, 0)."""
        facts = self.rerun or {}
        return facts.get("still_failed", 0) + facts.get("kept", 0), facts.get("selected", 0)

    @property
    def to_retry(self) -> int:
        """Questions that `crosscheck rerun` asks again; 0 of an unfinished run, which its own command continues."""
        return (self.retryable or 0) if self.is_finished else 0

    @property
    def in_words(self) -> str:
        """The score, and how many questions have no answer; of a re-run first how many failed again."""
        failed, selected = self.still_failed
        again = f"{failed:,} of {counted(selected, 'question')} still failed; " if failed else ""
        score = f"EX {percent_and_counts(self.score)}" if self.score.total else "nothing to score"
        unanswered = f"; {counted(self.unanswered, 'question')} without an answer" if self.unanswered else ""
        return f"{again}{score}{unanswered}"

    @property
    def exit_code(self) -> int:
        """3 if a re-run can answer some failed questions, or if this run is a re-run that brought no new answer.

        Else 2 if a user's own metric failed, or if the recording was not written; else 0.
        """
        if self.retryable or (self.rerun or {}).get("no_new_answer"):
            return ExitCode.TRY_AGAIN
        # `tasks.scoring.metric.measure` writes a metric that failed as {"error": ...}
        metrics = self.metrics.values()
        unmeasured = any(isinstance(metric, dict) and metric.keys() == {"error"} for metric in metrics)
        refused = "refused" in (self.recorded or {})
        return ExitCode.BAD_INPUT if unmeasured or refused else ExitCode.DONE

    def with_notes(self, notes: Iterable[str]) -> "RunRecord":
        """Return the record with these notes; empty ones are left out."""
        return self.model_copy(update={"notes": tuple(storable(note) for note in notes if note)})

    @property
    def scored_rows(self) -> dict[str, QuestionScore]:
        """The questions that were scored, by id."""
        return {row.question.id: row for row in self.rows if row.executable}

    def rights(self, rule: str) -> dict[str, bool]:
        """Return whether each scored question is right by a rule, by id."""
        return {id_: is_right(row.final, rule) for id_, row in self.scored_rows.items()}

    def answered_rights(self, rule: str) -> dict[str, bool]:
        """Return whether each scored question is right, without those that a retryable failure left unanswered."""
        answered = {id_: row for id_, row in self.scored_rows.items() if not row.outcome.retryable}
        return {id_: is_right(row.final, rule) for id_, row in answered.items()}

    def settings_of(self, kind: Kind) -> dict[str, Any]:
        """Return the settings of benchmark, backbone or pipeline; {} if they are unknown."""
        return self.settings.get(kind) or {}

    @property
    def made_elsewhere(self) -> bool:
        """Whether its answers were read from a file of predictions; what they cost is then unknown."""
        return self.settings_of("pipeline").get("kind") == PREDICTIONS

    @property
    def why_unranked(self) -> str:
        """Why it must not be ranked, as a clause without its subject; "" when it may be."""
        benchmark, backbone, pipeline = map(self.settings_of, KINDS)
        if ORACLE in self.tags or (pipeline.get("dac") or {}).get("oracle", "none") != "none":
            return "saw parts of the gold SQL (an oracle analysis)"
        if benchmark.get("transpile_gold"):
            return "was scored against gold SQL that sqlglot has translated"
        if backbone.get(COPIES_GOLD):
            return "has predictions that are the text of the gold SQL"
        if REROLLED in self.tags:
            return "had questions asked again after their answers were judged (re-rolled)"
        return ""

    def __str__(self) -> str:
        title = f"{self.benchmark} · {self.backbone} · {self.pipeline}, run {self.run_id}"
        state = "" if self.status == "complete" else f" ({self.status})"
        if not self.is_finished:
            return f"{title}{state}"
        return f"{title}{state}: execution accuracy {percent(self.score)}{self.score_in_brackets}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def _repr_html_(self) -> str:
        from pandas import DataFrame

        score = self.score
        rows = {
            "run": f"{self.run_id} ({self.status})",
            "benchmark": self.benchmark,
            "backbone": self.backbone,
            "pipeline": self.pipeline,
            f"execution accuracy ({self.rule})": f"{percent(score)} ({counts(score)})",
            "95 % interval": interval(*score.interval) if score.interval else DASH,
            "cost": in_words(self.cost),
        }
        return str(DataFrame({"": rows.keys(), " ": rows.values()}).to_html(index=False))

    @property
    def score_in_brackets(self) -> str:
        """What stands behind the headline share: numerator, denominator, rule and interval."""
        score = self.score
        range_ = f", 95 % interval {interval(*score.interval)}" if score.interval else ""
        return f" ({counts(score)}, rule {self.rule}{range_})"

    @property
    def score(self) -> Score:
        """The headline score; that of no question if the run has not finished."""
        unscored = Score(0, 0, rule=self.rule)
        return self.scores.get(self.rule, unscored) if self.is_finished else unscored

    @property
    def variants(self) -> dict[str, Score]:
        """The score of each variant under the headline rule; none if the run has not finished."""
        if not self.is_finished:
            return {}
        return {name: score for name, score in self.scores.items() if score.variant == name}


BESIDE = tuple(name for name, field in RunRecord.model_fields.items() if field.exclude)
"""Fields that the JSON of a record does not have."""
PROVENANCE = tuple(name for name in BESIDE if name not in ("rows", "measurements", "before"))
"""Those of them that the warehouse has as JSON of their own."""


def read_record(text: str) -> RunRecord:
    """Read a record from JSON text."""
    return RunRecord.model_validate(json.loads(text))


class JsonDocument(BaseModel):
    """An object that a command prints. Its fields are read from the attributes of a record by `model_validate`."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


def at(*path: str | int, **kwargs: Any) -> Any:
    """Return a field that is read from an attribute of an attribute: `at("question", "id")` from `question.id`."""
    return Field(validation_alias=AliasPath(*path), **kwargs)  # type: ignore[arg-type]


Count = Annotated[int, BeforeValidator(len)]
"""How many items an attribute has."""
TextOrNull = Annotated[str | None, BeforeValidator(lambda text: text or None)]
"""Null where an attribute is empty."""


def json_of(record: Any, fields: set[str] | None = None) -> Any:
    """Return a record, or some of its fields, as plain JSON; what is not known is null, never 0."""
    return adapter_of(record.__class__).dump_python(record, mode="json", include=fields)


@cache
def adapter_of(kind: Any) -> TypeAdapter[Any]:
    """Return what reads and writes the records of a class."""
    return TypeAdapter(kind)

"""The record of a run: what an evaluation found, in one versioned shape.

`crosscheck evaluate --json`, `rerun`, `score`, `show` and `runs` print it, the Python interface returns it, MLflow's
summary.json and the warehouse store it, and every display is made from it. docs/run-record.schema.json is its JSON
schema. What is not known is null, never 0.
"""

import datetime
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, is_dataclass
from dataclasses import fields as fields_of
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, TypeAdapter

from tasks.core.errors import CrosscheckError
from tasks.core.wording import money, number, storable
from tasks.documents.model import Table
from tasks.results.evaluation import FINISHED, KINDS, EvaluationRun
from tasks.results.parameters import flatten, redact, secrets_of
from tasks.scoring.cost import Cost, Estimate
from tasks.scoring.degradation import Degradation
from tasks.scoring.report import LinkingScore, Report, StageScore
from tasks.scoring.score import Accuracy, Score
from tasks.settings.evaluation import HARMLESS


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


def read_record(text: str) -> RunRecord:
    """Read a record from JSON text."""
    return RunRecord.model_validate(json.loads(text))


def json_of(record: Any, fields: set[str] | None = None) -> Any:
    """Return a record, or some of its fields, as plain JSON; what is not known is null, never 0."""
    return adapter_of(record.__class__).dump_python(record, mode="json", include=fields)


@cache
def adapter_of(kind: Any) -> TypeAdapter[Any]:
    """Return what reads and writes the records of a class."""
    return TypeAdapter(kind)


MESSAGE_LENGTH = 300


def started_record(run: EvaluationRun, status: str = "running") -> RunRecord:
    """Return the record of a run that has begun."""
    fields = {
        "run_id": run.run_id,
        "benchmark": run.benchmark,
        "revision": run.revision,
        "backbone": run.backbone,
        "pipeline": run.pipeline,
        "rule": run.rule,
        "status": status,
        "started": run.started,
        "tags": dict(run.tags),
        "question_set": run.run_id,
        "changes": _changes(run),
        "translations": run.translations,
        "engine": run.engine,
        "question_sha256": run.question_sha256,
        "keys": dict(run.keys),
        "version": run.version,
        "git_commit": run.git_commit,
    }
    return _clean(fields)


def record_of(run: EvaluationRun, report: Report, status: str = "complete", **facts: Any) -> RunRecord:
    """Return the record of a run from its report.

    Args:
        run: the evaluation.
        report: what it found, of the questions that it has so far.
        status: how it ended.
        facts: further fields of the record.
    """
    score = report.score
    found = {name: each.data if each else None for name, each in report.details.items()}
    update: dict[str, Any] = {
        "questions": report.questions,
        "scored": report.scored,
        "answered": report.answered,
        "unanswered": sum(report.failures.values()),
        "retryable": report.retryable,
        **{name: getattr(score, name) for name in ("ex", "correct", "total", "low", "high")},
        "question_set": _question_set(run, report),
        "scores": report.scores,
        "stages": report.stages,
        "by_difficulty": report.by_difficulty,
        "by_database": report.by_database,
        "links": report.linking,
        "cost": report.cost,
        "stage_costs": report.stage_cost,
        "degradation": report.degradation,
        "failures": report.failures,
        "failure_messages": redact(
            _failure_messages(report, facts.get("fatal", "")), *secrets_of(run.settings.get("backbone") or {})
        ),
        "missing_databases": report.missing_databases,
        "without_gold": report.without_gold,
        "not_executable": _not_executable(report),
        "gold_faults": report.gold_faults,
        "metrics": found,
        "remarks": tuple(line for each in report.measurements.values() for line in each.lines or ()),
        **({"mlflow_run_id": facts["mlflow"].run_id} if facts.get("mlflow") else {}),
        **facts,
    }
    return _clean({**started_record(run, status).model_dump(), **update})


def _plain(value: Any) -> Any:
    """Return a dataclass, mapping or moment as JSON can write it."""
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields_of(value)}
    return value.isoformat() if isinstance(value, datetime.datetime) else dict(value)


def _clean(fields: Mapping[str, Any]) -> RunRecord:
    """Return a record in whose texts is nothing that a store cannot hold: it equals what is read from one."""
    return read_record(storable(json.dumps(fields, default=_plain, ensure_ascii=False)))


def _changes(run: EvaluationRun) -> tuple[str, ...] | None:
    """Return the settings that differ from those of the same names without `--set`.

    A backbone of a file that cannot be read by its name is compared with any endpoint: without its prices, and without
    what has no influence on an answer.
    """
    from tasks.settings.assemble import evaluation_settings  # imports YAML
    from tasks.settings.backbone import BackboneSettings
    from tasks.settings.evaluation import EvaluationChoice

    def defaults_of(backbone: str) -> Any:
        choice = EvaluationChoice(benchmark=run.benchmark, backbone=backbone, pipeline=run.pipeline)
        return evaluation_settings(choice)

    skipped: tuple[str, ...] = ()
    try:
        defaults = defaults_of(run.backbone)
    except CrosscheckError:
        if (run.settings.get("backbone") or {}).get("kind") != "openai":
            return None
        try:
            unnamed = {"backbone": BackboneSettings(name=run.backbone)}
            defaults = defaults_of("offline").model_copy(update=unnamed)
            skipped = ("backbone.prices", *HARMLESS)
        except CrosscheckError:  # a benchmark or a pipeline of a file, or predictions made elsewhere
            return None
    default = flatten({kind: getattr(defaults, kind).model_dump(mode="json") for kind in KINDS})
    now = flatten({kind: run.settings.get(kind) or {} for kind in KINDS})
    changed = (key for key in now if _differs(key, now[key], default) and not key.startswith(skipped))
    return tuple(sorted(f"{key}={now[key]}" for key in changed))


def _differs(key: str, value: str, default: Mapping[str, str]) -> bool:
    """Return whether a flat setting has another value than by default, where a part of a null mapping is null."""
    if key in default:
        return default[key] != value
    return value != "null" or any(name.startswith(f"{key}.") for name in default)


def _question_set(run: EvaluationRun, report: Report) -> str:
    ids = sorted(row.question.id for row in report.rows)
    named = "\n".join([run.question_sha256, *ids])
    return hashlib.sha256(named.encode("utf-8", "replace")).hexdigest()[:32] if ids else run.run_id


def _not_executable(report: Report) -> dict[str, int]:
    failures = (row.outcome.failure for row in report.rows if not row.executable)
    return dict(Counter(failure.stage for failure in failures if failure and failure.stage))


def _failure_messages(report: Report, fatal: str) -> dict[str, str]:
    """Return the most frequent message of each kind of failure, without those that repeat the fatal error."""
    found: dict[str, Counter[str]] = {}
    for failure in (row.outcome.failure for row in report.rows):
        if failure and failure.kind in report.failures and not (fatal and fatal in failure.message):
            found.setdefault(failure.kind, Counter())[failure.message] += 1
    most = {kind: messages.most_common(1)[0][0] for kind, messages in found.items()}
    return {kind: " ".join(message.split())[:MESSAGE_LENGTH] for kind, message in most.items()}


def bill_of_run(record: RunRecord) -> Table | None:
    """Return what was saved of the list price, by stage; None if that is unknown or nothing is charged."""
    cost = record.cost
    if not cost.list_usd and not cost.reply_cache_usd:
        return None
    stages = [(name, cost) for name, cost in record.stage_costs.items() if cost.calls or cost.cached_calls]
    rows = [(name, *map(money, _steps(each))) for name, each in (*stages, ("all", cost))]
    headers = (
        "stage", "list price", "saved by prompt cache", "saved by tier", "paid", "saved by reply cache", "from scratch"
    )  # fmt: skip
    remarks = [
        "list price less what the provider's prompt cache and a cheaper tier saved is what was paid; the reply cache "
        "saved what its replies cost when they were paid"
    ]
    if cost.flex_calls:
        remarks.append(f"answered in the tier flex: {cost.flex_calls:,} of {number(cost.calls)} paid calls")
    if (text := forecast_in_words(record)) is not None:
        remarks.append(text)
    right, scratch = record.score.correct, cost.from_scratch_usd
    if right and scratch is not None:
        remarks.append(
            f"per right answer: {money(scratch / right)} from scratch ({money(scratch)} / {right:,})"
        )
    return Table("Bill", headers, (*rows[:-1], None, rows[-1]), "; ".join(remarks))


def forecast_in_words(record: RunRecord) -> str | None:
    """Return the forecast of a run's cost beside the actual one; None if either is unknown."""
    forecast, scratch = record.forecast, record.cost.from_scratch_usd
    if forecast is None or forecast.cost_usd is None or scratch is None:
        return None
    share = f", {scratch / forecast.cost_usd:.2f} times the forecast" if forecast.cost_usd else ""
    estimated = f"forecast: {money(forecast.cost_usd)} for {number(forecast.calls)} calls"
    return f"{estimated}; from scratch: {money(scratch)}{share}"


def _steps(cost: Cost) -> tuple[float | None, ...]:
    saved = (cost.prompt_cache_usd, cost.tier_usd)
    return (cost.list_usd, *saved, cost.cost_usd, cost.reply_cache_usd, cost.from_scratch_usd)

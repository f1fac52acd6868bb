"""What users choose: the options of commands, the fields of Prefect's forms and the keys of nights.yaml.

The settings that they name are not read here, so a command that only shows results does not import their models.
"""

import datetime
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, field_validator

from tasks.core.errors import ConfigurationError
from tasks.core.wording import sentence
from tasks.settings.base import Metavar, Settings
from tasks.settings.home import DEFAULT_BACKBONE, DEFAULT_BENCHMARK, DEFAULT_PIPELINE

_TAG = re.compile(r"[\w][\w.\- ]{0,99}")
RESERVED_TAGS = frozenset(
    """
    answer_keys attempt benchmark_revision changed crosscheck_run_id crosscheck_version generated_descriptions
    git_commit name night noise note oracle parent_mlflow_run_id parent_run_id question_sha256 repeat rerolled rerun
    rerun_from rule score sqlite_version status sweep sweep_set training_questions vs_best
    """.split()  # noqa: SIM905 - a list of 25 strings would be half a page
)
"""Tags that Crosscheck writes itself."""
HARMLESS = (
    "backbone.api_key_command", "backbone.api_key_env", "backbone.batch_poll_s", "backbone.batch_quiet_s",
    "backbone.concurrency", "backbone.finish_by", "backbone.flex_wait_s", "backbone.headers_env", "backbone.max_wait_s",
    "backbone.retries", "backbone.tier", "backbone.timeout_s", "tracking.failed_traces", "tracking.genai_evaluation",
    "tracking.sample_traces",
)  # fmt: skip
"""Settings that a re-run or a repeat may change: they influence whether an answer arrives, but not its content."""
Only = Literal["errors", "wrong", "empty", "timeouts"]


class Labels(Settings):
    """What a user writes on runs, to find them again."""

    name: str | None = Field(None, min_length=1, max_length=200)
    """Name of the run in MLflow and in lists; left out: backbone and pipeline."""
    tags: dict[str, str] = Field({})
    """Tags of the run. A run with the tag `pinned` is kept whatever its age."""
    note: str | None = Field(None, min_length=1, max_length=2000)
    """A remark."""

    @field_validator("tags")
    @classmethod
    def _are_free(cls, tags: dict[str, str]) -> dict[str, str]:
        for key in tags:
            if not _TAG.fullmatch(key) or key.startswith("mlflow.") or key in RESERVED_TAGS:
                why = "write a name and a value, team=search"
                if key in RESERVED_TAGS:
                    why = "Crosscheck writes it itself"
                raise ValueError(f'"{key}" cannot be a tag: {why}')
        return tags

    @property
    def as_tags(self) -> dict[str, str]:
        """The tags, name and note among them."""
        return self.tags | {key: text for key in ("name", "note") if (text := getattr(self, key))}


def labels(name: str | None, tags: Sequence[str], note: str | None) -> Labels:
    """Return what a user writes on runs, tags as `--tag` takes them: `team=search`."""
    pairs = {}
    for tag in tags:
        key, _, value = (part.strip() for part in tag.partition("="))
        if not key or not value:
            raise ConfigurationError(f"--tag {tag}: write a name and a value, for example --tag team=search.")
        pairs[key] = value
    try:
        return Labels(name=name, tags=pairs, note=note)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        option = "--tag" if first["loc"][0] == "tags" else f"--{first['loc'][0]}"
        reason = first["msg"].removeprefix("Value error, ")
        raise ConfigurationError(f"{option}: {sentence(reason)}") from None


def labels_in_words(tags: Mapping[str, str]) -> str:
    """Write what a user wrote on a run: name, tags and note; "" if there is nothing.

    >>> labels_in_words({"name": "new prompt", "team": "search", "note": "shorter", "sweep": "2026"})
    'new prompt · team=search · shorter'
    """
    own_labels = [f"{key}={value}" for key, value in tags.items() if key not in RESERVED_TAGS]
    return " · ".join(part for part in (tags.get("name"), *own_labels, tags.get("note")) if part)


class QuestionSelection(Settings):
    """Which questions of a benchmark are asked or scored.

    The options of the command line, the fields of Prefect's forms and the keys of nights.yaml are made of these fields:
    name, description, type, limits and default. `tasks.benchmarks.selection.select` applies them.
    """

    limit: int | None = Field(None, ge=1, le=1_000_000)
    """Use only the first N questions."""
    questions: Annotated[str | None, Metavar("IDS")] = None
    """Use only these questions: ids and ranges, `717-845,900`, or `@FILE` with one id per line."""

    @property
    def in_words(self) -> str:
        """The selection on a page of results; "" for all questions."""
        ids = [self.questions] if self.questions else []
        first = [f"the first {self.limit:,}"] if self.limit else []
        return ", ".join((*ids, *first))


class Workload(QuestionSelection):
    """Which questions are asked, and by how many workers."""

    shards: int = Field(1, ge=1, le=256)
    """Divide the questions among N flow runs on the workers of the work pool (needs PREFECT_API_URL)."""


class EvaluationNames(Workload):
    """An evaluation by the names of its settings."""

    benchmark: Annotated[str, Metavar("NAME")] = DEFAULT_BENCHMARK
    """Benchmark: a name that `crosscheck list benchmarks` prints, or a YAML file."""
    backbone: Annotated[str, Metavar("NAME")] = DEFAULT_BACKBONE
    """Model: a name that `crosscheck list backbones` prints, or a YAML file."""
    pipeline: Annotated[str, Metavar("NAME")] = DEFAULT_PIPELINE
    """Pipeline: a name that `crosscheck list pipelines` prints, a YAML file, or path/to/file.py:function."""
    overrides: tuple[str, ...] = Field((), strict=False)
    """Settings to change, as `--set` takes them: `pipeline.demonstrations.k=5`."""
    data: str | None = None
    """Folder of the benchmarks' files; left out: CROSSCHECK_DATA, else `data`."""


class EvaluationChoice(EvaluationNames):
    """An evaluation as a user names it, in a working folder."""

    home: str | None = None
    """Working folder; left out: CROSSCHECK_HOME, else `.crosscheck`."""
    record: str | None = None
    """File of the recording, as a path that may be relative."""


class RerunChoice(Settings):
    """The run and the questions to repeat, and which of their earlier results are kept."""

    run: str = "latest"
    """The run: its id or the beginning of it, MLflow's id, or `latest`, `latest~1`, ..."""
    only: Only | None = None
    """errors: failed, and can be retried; wrong: scored wrong, which changes what the score means; empty: the SQL
    returned no row; timeouts: the SQL exceeded the time limit; left out: errors, and with a stage every question that
    went through it."""
    questions: str | None = None
    """Questions to ask instead: ids and ranges of ids, `717-845,900`."""
    from_stage: str | None = None
    """Stage from which results are discarded; left out: all results are kept."""
    fresh: bool = False
    """Request new replies from the model instead of cached ones."""


PINNED = "pinned"
"""Tag of a run that is kept whatever its age."""

_UNITS = {"d": "days", "h": "hours", "m": "minutes"}


class Gate(Settings):
    """When a nightly run is red (it fails) or amber; a loss must meet a threshold and a test, so that noise is none.

    `tests/benchmarks/verdicts_of_nights.py` prints how often each verdict comes of noise, of a loss and of a drift.
    """

    threshold: float = Field(1.0, ge=0, le=100)
    """Smallest loss of execution accuracy, in percentage points, that is red or amber."""
    level: float = Field(0.01, gt=0, lt=1)
    """Red: level of the exact McNemar test; p-values are adjusted for the number of comparisons (Holm)."""
    doubt_level: float = Field(0.05, gt=0, lt=1)
    """Amber, possibly worse: level of the same test, not adjusted."""
    trend_nights: int = Field(14, ge=7, le=100)
    """Amber, declining: how many of the last scores, since a pinned baseline, are tested for a trend."""
    trend_level: float = Field(0.01, gt=0, lt=1)
    """Amber, declining: level of the Mann-Kendall test; p-values are adjusted for the number of tests (Holm)."""
    degraded_share: float = Field(0.05, gt=0, le=1)
    """A run is amber (degraded) from this share of questions with an unreadable reply or a stage that fell back."""
    tolerated_failures: float = Field(0.01, ge=0, le=1)
    """Largest share of questions without an answer after a retryable failure that does not fail the nightly run."""


def age(text: str) -> datetime.timedelta:
    """Return an age, at most 100 years: no run is older, and a larger one can lie before the first date.

    >>> age("90d"), age("12h")
    (datetime.timedelta(days=90), datetime.timedelta(seconds=43200))
    """
    match = re.fullmatch(r"(\d{1,9})([dhm])", text.strip())
    if not match:
        raise ConfigurationError(f"--keep {text}: write a number and d, h or m, for example 90d.")
    return min(datetime.timedelta(**{_UNITS[match[2]]: int(match[1])}), datetime.timedelta(days=36_500))


def _checked(text: str) -> str:
    try:
        age(text)
    except ConfigurationError:
        raise ValueError("write a number and d, h or m, for example 90d") from None
    return text


class Keep(Settings):
    """Which runs keep their traces and artifacts; the others keep their scores. What no run used goes, too."""

    age: Annotated[str, AfterValidator(_checked)] = "30d"
    """Runs that are younger are kept, and what was used since: a number and d, h or m."""
    runs: int = Field(2, ge=0, le=1_000_000)
    """The latest finished runs of each benchmark, backbone and pipeline are kept whatever their age."""
    rows: bool = True
    """Keep the questions of all runs in the warehouse; false: of a run that is not kept, only its scores."""

"""Settings of an evaluation, a re-run and a shard: the parameters of their flows."""

from typing import Literal

from pydantic import Field

from tasks.settings.base import Settings
from tasks.settings.kinds import AnyBackbone, AnyBenchmark, AnyPipeline

Only = Literal["errors", "wrong", "empty", "timeouts"]


class TrackingSettings(Settings):
    """Which questions have a trace in MLflow; without effect on answers and scores."""

    failed_traces: int = Field(100, ge=0)
    """Most failed questions that are traced: those without an answer, or with SQL that fails; 0: none."""
    sample_traces: int = Field(20, ge=0)
    """Number of sampled questions that are traced independent of their outcome, the same in every run; 0: none."""
    genai_evaluation: bool = False
    """Give every other scored question a trace as well, without its stages, and list the run among MLflow's
    evaluation runs."""


class EvaluationSettings(Settings):
    """A benchmark, a backbone and a pipeline, and which questions to ask."""

    benchmark: AnyBenchmark
    """The benchmark."""
    backbone: AnyBackbone
    """The backbone."""
    pipeline: AnyPipeline
    """The pipeline."""
    questions: str | None = None
    """Ids and ranges of ids, `717-845,900`, or `@file` with one id per line; None: all."""
    limit: int | None = Field(None, ge=1)
    """The first so many of them; None: all."""
    shards: int = Field(1, ge=1, le=256)
    """Parts into which the questions are divided, each answered by a worker of the pool; 1: all are answered here."""
    tracking: TrackingSettings = TrackingSettings()
    """What is logged to MLflow besides scores."""
    record: str | None = None
    """File that a recording of every reply is written to; None: none."""
    data: str
    """Folder of the benchmarks' files."""
    home: str
    """Working folder."""

    @property
    def label(self) -> str:
        """Name of the run in MLflow and Prefect."""
        return f"{self.backbone.name} | {self.pipeline.name}"


class RerunSettings(Settings):
    """Which questions of which run are asked again, and what of their earlier answers is kept."""

    run: str
    """The run: its id or the beginning of it, MLflow's id, or `latest`, `latest~1`, ..."""
    only: Only = "errors"
    """errors: no answer, after a retryable failure or a bug; wrong: an answer that is not right; empty: an
    answer that returned no row; timeouts: an answer that was stopped."""
    questions: str | None = None
    """These instead: ids and ranges of ids, `717-845,900`, or `@file`; None: those that `only` names."""
    from_stage: str | None = None
    """Drop the results of this stage and of those that begin after it; None: keep every result there is."""
    fresh: bool = False
    """Ask the model for new replies instead of using those that were paid for."""
    overrides: tuple[str, ...] = ()
    """Changes of settings, `backbone.concurrency=4`: only of those that cannot change what the score means."""
    data: str
    """Folder of the benchmarks' files."""
    home: str
    """Working folder."""


class Shard(Settings):
    """A shard of an evaluation: every `of`-th question, so that databases and difficulties are spread evenly."""

    run: str
    """Id of the evaluation."""
    number: int = Field(ge=1)
    """Which one, counted from 1."""
    of: int = Field(ge=1)
    """How many there are."""

    def __str__(self) -> str:
        return f"shard {self.number} of {self.of}"

"""Settings of an evaluation, a re-run and a shard: the parameters of their flows."""

from pydantic import Field

from tasks.settings.base import Settings
from tasks.settings.choices import RerunChoice, Workload
from tasks.settings.kinds import AnyBackbone, AnyBenchmark, AnyPipeline


class TrackingSettings(Settings):
    """Which questions have a trace in MLflow, and a limit for the working folder; without effect on scores."""

    failed_traces: int = Field(100, ge=0, le=1_000_000)
    """Most questions that are traced because of their outcome: first those without an answer or with SQL that fails,
    then those whose verdict is another than in the previous run of the same benchmark, backbone and pipeline, then
    those with a wrong answer; 0: none."""
    sample_traces: int = Field(20, ge=0, le=1_000_000)
    """Number of sampled questions that are traced independent of their outcome, the same in every run; 0: none."""
    genai_evaluation: bool = False
    """Give every other scored question a trace as well, without its stages, and list the run among MLflow's
    evaluation runs."""
    folder_limit_gb: float = Field(20, gt=0, le=1_000_000)
    """Size of the working folder beyond which a run ends with a remark on `crosscheck clean`."""


class EvaluationSettings(Workload):
    """A benchmark, a backbone and a pipeline as they were read, and which questions to ask."""

    benchmark: AnyBenchmark
    """The benchmark."""
    backbone: AnyBackbone
    """The backbone."""
    pipeline: AnyPipeline
    """The pipeline."""
    tracking: TrackingSettings = TrackingSettings()
    """What is logged to MLflow besides scores."""
    changed: tuple[str, ...] = Field((), strict=False)
    """Settings that differ from those of the named benchmark, backbone and pipeline, `key=value`."""
    record: str | None = None
    """File that a recording of every reply is written to; None: none."""
    data: str
    """Folder of the benchmarks' files."""
    home: str
    """Working folder."""

    @property
    def label(self) -> str:
        """What is evaluated, as `RunRecord.name` says it of a run."""
        return f"{self.backbone.name} | {self.pipeline.name}"


class RerunSettings(RerunChoice):
    """A re-run in a working folder."""

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
    number: int = Field(ge=1, le=1_000_000)
    """Which one, counted from 1."""
    of: int = Field(ge=1, le=1_000_000)
    """How many there are."""

    def __str__(self) -> str:
        return f"shard {self.number} of {self.of}"

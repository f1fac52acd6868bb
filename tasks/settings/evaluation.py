"""Settings of one evaluation: the parameters of the `evaluate` flow."""

from pydantic import Field

from tasks.settings.backbone import BackboneSettings
from tasks.settings.base import Settings
from tasks.settings.benchmark import BenchmarkSettings
from tasks.settings.pipeline import PipelineSettings
from tasks.settings.tracking import TrackingSettings


class EvaluationSettings(Settings):
    """A benchmark, a backbone and a pipeline, and which questions to ask."""

    benchmark: BenchmarkSettings
    """What is asked, and how it is scored."""
    backbone: BackboneSettings
    """Who answers."""
    pipeline: PipelineSettings
    """How."""
    questions: str | None = None
    """Ids and ranges of ids, `717-845,900`, or `@file` with one id per line; None: all."""
    limit: int | None = Field(None, ge=1)
    """The first so many of them; None: all."""
    shards: int = Field(1, ge=1, le=256)
    """Parts into which the questions are divided, each answered by a worker of the pool; 1: all are answered here."""
    tracking: TrackingSettings = TrackingSettings()
    """What MLflow is told beyond scores."""
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

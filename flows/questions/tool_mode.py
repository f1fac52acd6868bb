"""The way in which the run's model calls tools."""

from tasks.backbone.kinds.kind import kind_of
from tasks.settings.evaluation import EvaluationSettings
from tasks.settings.pipeline import AgentSettings, PipelineSettings


def with_tool_mode(settings: EvaluationSettings) -> PipelineSettings:
    """Return the settings of the pipeline with "native" or "text" in place of an agent's `tools: auto`."""
    pipeline = settings.pipeline
    if not isinstance(pipeline, AgentSettings) or pipeline.tools != "auto":
        return pipeline
    native = kind_of(settings.backbone).tools(settings.backbone)
    return pipeline.model_copy(update={"tools": "native" if native else "text"})

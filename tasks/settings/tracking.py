"""Settings of what MLflow is told beyond scores: which questions' ways it can show."""

from pydantic import Field

from tasks.settings.base import Settings


class TrackingSettings(Settings):
    """Which questions have a trace in MLflow. No answer and no score depends on it."""

    failed_traces: int = Field(100, ge=0)
    """Most failed questions that are traced: those without an answer, or with SQL that fails; 0: none."""
    sample_traces: int = Field(20, ge=0)
    """Questions that are traced whatever came of them, the same ones in every run; 0: none."""
    genai_evaluation: bool = False
    """Give every other scored question a trace as well, without its stages, and list the run among MLflow's
    evaluation runs."""

"""Settings of SEA-SQL's stages: every switch of the paper is a field here, an ablation is a value."""

from pydantic import Field

from tasks.settings.base import Settings


class BiasEliminationSettings(Settings):
    """Adaptive bias elimination (SEA-SQL, section 3)."""

    enabled: bool = True
    """Off: the preliminary SQL goes on as it is, as it does without an eliminator."""
    rows_shown: int = Field(10, ge=1)
    """Rows of the result in the prompt; training pairs are written with the same number."""


class ExecutionAdjustmentSettings(Settings):
    """Dynamic execution adjustment (SEA-SQL, section 4)."""

    rounds: int = Field(10, ge=0)
    """Rounds of reflection and correction at most; 0: off."""

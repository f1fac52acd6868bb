"""Settings of DAC's correction: every switch of the paper is a field here, an ablation is a value."""

from typing import Literal

from pydantic import Field

from tasks.settings.base import Settings

OracleParts = Literal["none", "entities", "skeleton", "both"]


class DacCorrectionSettings(Settings):
    """Decomposed automation correction (DAC, section 3); off where a pipeline's `dac` is null."""

    shots: int = Field(5, ge=0)
    """Training questions shown to entity linking and skeleton parsing, chosen by the pipeline's own retriever."""
    execution: bool = True
    """Feed execution errors back, before anything else."""
    entities: bool = True
    """Link entities and feed back those that the SQL does not use. Off: the paper's ablation."""
    skeleton: bool = True
    """Parse a skeleton and feed it back where the SQL has another. Off: the paper's ablation."""
    rounds: int = Field(3, ge=1)
    """Corrections per kind of feedback, at most."""
    later_temperature: float = Field(0.7, ge=0, le=2)
    """Temperature from a kind's second round on; the first is asked at the backbone's own."""
    never_longer: bool = True
    """Never ask for a skeleton longer than the SQL's own, as the released code; off: as the paper."""
    values: int = Field(3, ge=0)
    """Values per column in the schema, those that the question mentions first; 0: the pipeline's sample rows.
    Without effect where the pipeline's prompt shows retrieved values."""
    skeleton_evidence: bool = False
    """Show the evidence to skeleton parsing too; DAC shows the question only."""
    oracle: OracleParts = "none"
    """Take entities or skeleton from the gold SQL: an analysis, tagged "oracle" and never ranked."""

    @property
    def oracle_entities(self) -> bool:
        """Whether the entities come from the gold SQL."""
        return self.oracle in ("entities", "both")

    @property
    def oracle_skeleton(self) -> bool:
        """Whether the skeleton comes from the gold SQL."""
        return self.oracle in ("skeleton", "both")

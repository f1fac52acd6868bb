"""Settings of DAC's correction, for every pipeline that has one (arXiv 2408.08779)."""

from typing import Literal

from pydantic import Field

from tasks.settings.base import Settings

OracleParts = Literal["none", "entities", "skeleton", "both"]
FeedbackStyle = Literal["advisory", "strict"]


class DacCorrectionSettings(Settings):
    """Decomposed automation correction (DAC, section 3); off where a pipeline's `dac` is null."""

    question: Literal["question", "with_evidence"] = "with_evidence"
    """What entity linking and skeleton parsing take for the question: on benchmarks with evidence the authors'
    question contains it. "question": its text alone."""
    shots: int = Field(5, ge=0, le=1000)
    """Training questions shown to entity linking and skeleton parsing, chosen by the pipeline's own retriever."""
    alignments: Literal["spider", "benchmark"] = "spider"
    """Whose training questions entity linking is shown: Spider's, as in the paper, where its files are in the data
    folder, else the benchmark's own; "benchmark": always its own."""
    correction_shots: int = Field(0, ge=0, le=1000)
    """Training questions shown to each correction, with schema and SQL; the released code's few-shot correction."""
    execution: bool = True
    """Feed execution errors back, before anything else."""
    entities: bool = True
    """Link entities and feed back those that the SQL does not use. Off: the paper's ablation."""
    skeleton: bool = True
    """Parse a skeleton and feed it back where the SQL has another. Off: the paper's ablation."""
    second_generation: bool = False
    """Write the SQL once more on the schema of the linked entities, before it is corrected (released code)."""
    consistency: int = Field(1, ge=1, le=100)
    """SQLs written per generation; the one whose result most of them return goes on. Released code: 5."""
    feedback: FeedbackStyle = "advisory"
    """"strict" words feedback as a demand, rejects a revision whose skeleton is longer than the SQL's, and goes on to
    another round only while less is missing than before (released code)."""
    rounds: int = Field(3, ge=1, le=100)
    """Corrections per kind of feedback, at most."""
    later_temperature: float | None = Field(None, ge=0, le=2)
    """Temperature from a kind's second round on, and of further SQLs for a vote; the first is asked at the backbone's
    own. null: 0.7, and 0.8 with strict feedback."""
    never_longer: bool = True
    """Never ask for a skeleton longer than the SQL's own, as the released code; off: as the paper."""
    values: int = Field(3, ge=0, le=1000)
    """Values per column in the schema, those that the question mentions first; 0: the pipeline's sample rows.
    Without effect where the pipeline's prompt shows retrieved values."""
    oracle: OracleParts = "none"
    """Take entities or skeleton from the gold SQL: an analysis, tagged "oracle" and never ranked."""

    @property
    def with_evidence(self) -> bool:
        """Whether the question's evidence is part of it."""
        return self.question == "with_evidence"

    @property
    def strict(self) -> bool:
        """Whether feedback is a demand."""
        return self.feedback == "strict"

    @property
    def warm(self) -> float:
        """Temperature of every sample but the first."""
        return self.later_temperature if self.later_temperature is not None else 0.8 if self.strict else 0.7

    @property
    def most_shots(self) -> int:
        """Training questions that any of its prompts shows."""
        return max(self.shots, self.correction_shots)

    @property
    def oracle_entities(self) -> bool:
        """Whether the entities come from the gold SQL."""
        return self.oracle in ("entities", "both")

    @property
    def oracle_skeleton(self) -> bool:
        """Whether the skeleton comes from the gold SQL."""
        return self.oracle in ("skeleton", "both")

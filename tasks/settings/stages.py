"""Settings of the papers' stages: linking, augmentation, selection and the corrections."""

from typing import Literal

from pydantic import Field

from tasks.settings.base import Settings

Names = Literal["all", "unlisted"]


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
    feedback: Literal["advisory", "strict"] = "advisory"
    """"strict" words feedback as a demand, rejects a revision whose skeleton is longer than the SQL's, and goes on to
    another round only while less is missing than before (released code)."""
    rounds: int = Field(3, ge=1, le=100)
    """Corrections per kind of feedback, at most."""
    later_temperature: float | None = Field(None, ge=0, le=2)
    """Temperature from a kind's second round on, and of further SQLs for a vote; the first is asked at the backbone's
    own. null: 0.7, and 0.8 with strict feedback."""
    names: Names = "all"
    """Which words are compared with the names of the schema: "all" that the reply leaves unlinked, those that it says
    mean nothing included (published); "unlisted": those alone that the reply does not list."""
    joins_count: bool = False
    """Whether a column that the SQL uses only to join counts as used; published: no."""
    never_longer: bool = False
    """Never ask for a skeleton longer than the SQL's own, as the released code."""
    values: int = Field(3, ge=0, le=1000)
    """Values per column in the schema, those that the question mentions first; 0: the pipeline's sample rows.
    Without effect where the pipeline's prompt shows retrieved values."""
    oracle: Literal["none", "entities", "skeleton", "both"] = "none"
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
        if self.later_temperature is not None:
            return self.later_temperature
        return 0.8 if self.strict else 0.7

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


HintSource = Literal["evidence", "question", "both", "none"]
Match = Literal["substring", "word", "parsed"]


class ForwardLinkSettings(Settings):
    """Forward link: the backbone names what the question needs (RSL-SQL, section 3.1)."""

    hint_source: HintSource = "evidence"
    """Where column names are looked for, to be added to what the backbone named: v1 evidence; acl both, since its
    question contains the evidence."""
    max_columns_per_table: int = Field(15, ge=1, le=1000)
    """Columns per table that the prompt asks for at most."""


class BackwardLinkSettings(Settings):
    """Backward link: the columns that the preliminary SQL mentions (RSL-SQL, section 3.1)."""

    match: Match = "substring"
    """How a column is found in SQL1: v1 "substring", acl "parsed"; "word" is between the two."""


class LinkingSettings(Settings):
    """Bidirectional schema linking (RSL-SQL, section 3.1)."""

    directions: Literal["both", "forward", "backward", "none", "gold"] = "both"
    """Which links the reduced schema is made of; "none": no reduction; "gold": the tables and columns of the gold SQL,
    an analysis, tagged "oracle" and never ranked."""
    forward: ForwardLinkSettings = ForwardLinkSettings()
    backward: BackwardLinkSettings = BackwardLinkSettings()
    shown: Literal["named", "with_hints", "none"] = "named"
    """What SQL1 is shown of the forward link: what the backbone named, the columns found in the hint source too, or
    nothing (Spider)."""
    descriptions: bool = False
    """Show column descriptions to the forward link and SQL1 (acl)."""
    keep_keys: bool = False
    """Also keep the join keys of surviving tables (our extension)."""
    iterations: int = Field(1, ge=1, le=100)
    """Rounds of forward and backward linking; their links are united (acl: 3 on Spider 2.0)."""


AugmentationPart = Literal["elements", "keywords", "conditions"]


class AugmentationSettings(Settings):
    """Contextual information augmentation (RSL-SQL, section 3.2): each part on or off."""

    descriptions: bool = True
    elements: bool = True
    keywords: bool = True
    conditions: bool = True
    together: bool = False
    """Request elements, keywords and conditions in one call, which sends the schema once (our extension)."""

    @property
    def parts(self) -> tuple[AugmentationPart, ...]:
        """The parts that a model names and that are on."""
        every_part: tuple[AugmentationPart, ...] = ("elements", "keywords", "conditions")
        return tuple(part for part in every_part if getattr(self, part))


class SelectionSettings(Settings):
    """Binary selection (RSL-SQL, section 3.3)."""

    enabled: bool = True
    """Off: SQL2 goes on as it is."""
    rows_shown: int = Field(5, ge=1, le=1000)
    """Rows of each candidate's result in the prompt."""
    counts: bool = True
    """Say how many rows there are, as the paper does (section VI-B); the released code does not."""
    demonstrations: bool = True
    """Show the demonstrations (acl: off)."""
    both_orders: bool = False
    """Where the results of SQL1 and SQL2 differ, ask a second time with the queries in the other order, and keep SQL2
    if the choices differ. Not in the paper: a choice may depend on the order."""
    shortcut: Literal["none", "identical", "result"] = "identical"
    """When selection needs no call. "none": never, as in v1 and its code. "identical": where SQL1 and SQL2 are the same
    query but for blanks and case, and return rows. "result": also where the results decide (acl)."""


class CorrectionTurns(Settings):
    """The conversation of self-correction: what the stage itself reads, and its results depend on."""

    rounds: int = Field(5, ge=0, le=100)
    """Rounds at most; 0: off. v1 5, acl 3."""
    first_turn: Literal["informed", "blind"] = "informed"
    """Whether the first turn shows the SQL and what it returned. "blind" is what v1's code did."""
    when: Literal["error", "error_or_empty"] = "error_or_empty"
    """What calls for a correction (acl and Spider: an error only)."""


class CorrectionSettings(CorrectionTurns):
    """Multi-turn self-correction (RSL-SQL, section 3.4)."""

    augmentation: bool = True
    """Show the keywords and the conditions of the augmentation, as the released code does."""
    before_selection: bool = False
    """Correct SQL1 and SQL2 each before selecting (acl, Spider 2.0)."""

    @property
    def turns(self) -> CorrectionTurns:
        """These settings without what only the pipeline reads."""
        return CorrectionTurns(**{name: getattr(self, name) for name in CorrectionTurns.model_fields})


class BiasEliminationSettings(Settings):
    """Adaptive bias elimination (SEA-SQL, section 3)."""

    enabled: bool = True
    """Off: the preliminary SQL goes on as it is, as it does without an eliminator."""
    rows_shown: int = Field(10, ge=1, le=1000)
    """Rows of the result in the prompt; training pairs are written with the same number."""
    after_adjustment: bool = False
    """Eliminate bias after the execution adjustment instead of before it (Table 8)."""


class ExecutionAdjustmentSettings(Settings):
    """Dynamic execution adjustment (SEA-SQL, section 4)."""

    rounds: int = Field(10, ge=0, le=100)
    """Rounds of reflection and correction at most; 0: off."""


ToolMode = Literal["native", "text"]
"""How a model calls tools."""


class ToolLimits(Settings):
    """Limits of tool calls and of what they return."""

    calls_per_turn: int = Field(8, ge=1, le=1000)
    """Tool calls in one reply that are executed; the others are refused."""
    rows: int = Field(20, ge=1, le=1000)
    """Rows of a result that `run_sql` shows."""
    values: int = Field(5, ge=1, le=10)
    """Values of each column that `search_values` shows."""
    characters: int = Field(8000, ge=200, le=1_000_000)
    """Characters of a tool's result; a longer one is cut."""


class AgentLimits(ToolLimits):
    """Limits of one conversation; the model is told when one is near."""

    turns: int = Field(15, ge=1, le=1000)
    """Replies of the model to a question, at most; the last time it is asked to submit."""
    calls: int = Field(60, ge=1, le=100_000)
    """Tool calls for a question that are executed; later ones are refused, except that of `submit`."""
    tokens: int | None = Field(None, ge=1, le=10**9)
    """Input and output tokens of a question's model calls from which on no further turn begins; null: no limit. A call
    whose tokens the endpoint does not report counts none."""
    usd: float | None = Field(None, gt=0, le=10_000)
    """Cost of a question's model calls in USD, without the reply cache, from which on no further turn begins; null: no
    limit. A call whose cost is unknown counts none."""

    @property
    def of_tools(self) -> ToolLimits:
        """The limits that a turn's result depends on."""
        return ToolLimits(**{name: getattr(self, name) for name in ToolLimits.model_fields})

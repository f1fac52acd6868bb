"""Settings of the pipelines: every switch of the papers is a field here, an ablation is a value."""

from typing import Any, Literal, TypeVar

from pydantic import Field, model_validator

from tasks.settings.base import Settings
from tasks.settings.stages import (
    AgentLimits,
    AugmentationSettings,
    BiasEliminationSettings,
    CorrectionSettings,
    DacCorrectionSettings,
    ExecutionAdjustmentSettings,
    LinkingSettings,
    SelectionSettings,
    ToolMode,
)

SchemaFormat = Literal["comment", "create_table", "m_schema", "values", "omnisql"]
NativeLayout = Literal["omnisql", "arctic", "xiyan"]


class DemonstrationSettings(Settings):
    """Few-shot demonstrations from the training questions."""

    k: int = Field(3, ge=0, le=1000)
    """Demonstrations per prompt; 0: none."""
    retriever: Literal["bm25", "embedding", "auto"] = "bm25"
    """"embedding" is what RSL-SQL published; it needs an encoder on disk or a network to fetch it. "auto": embedding
    where the encoder, or an installed package with another, is on this disk, else BM25. The run keeps which it was."""
    encoder: str = "sentence-transformers/all-mpnet-base-v2"
    """Name or path of a sentence-transformers model, for "embedding"."""
    metric: Literal["euclidean", "cosine"] = "euclidean"
    """Distance between normalised embeddings."""
    evidence: bool = False
    """Show the evidence of demonstrations too; RSL-SQL shows question and SQL only."""
    mask: bool = False
    """Compare questions with the words of their schema and their values masked (Spider in RSL-SQL)."""


class PromptSettings(Settings):
    """How a database is shown."""

    schema_format: SchemaFormat = "comment"
    """"comment": a line per table; "create_table": DDL; "m_schema": a line per column with type and
    examples; "values": a line per table with examples behind each column (SEA-SQL); "omnisql": DDL as OmniSQL and
    Arctic-Text2SQL-R1 write it."""
    sample_rows: int = Field(3, ge=0, le=1000)
    """Rows of each table whose values are shown, per column."""
    rows: Literal["first", "random"] = "first"
    """Which rows these are; "random" (acl): drawn once per database."""
    row_seed: int = Field(0, ge=-(2**63), lt=2**63)
    """Which random rows are drawn."""
    longest_value: int = Field(100, ge=1, le=1_000_000)
    """Characters of a sample value that are shown (acl: 50)."""
    missing: bool = False
    """Show what share of a column's values is NULL; in "m_schema" only (acl)."""
    demonstrations_first: bool = False
    """Show demonstrations before everything else, as the authors do. Behind the database, prompts about one database
    begin alike, and providers charge less for what they have in their prefix cache."""
    task: Literal["first", "last"] = "first"
    """Where the task stands: before the schema or behind it. With "last", all prompts about a database begin alike,
    whatever the stage, so that a provider's prefix cache serves the schema to every stage."""
    rules: Literal["all", "rsl_sql", "none"] = "all"
    """General rules in every prompt that asks for a query: "all" seven, our own; "rsl_sql": the two that RSL-SQL's
    prompts have (evidence is binding, names are the schema's); "none": as in SEA-SQL and DAC."""
    foreign_keys: bool = True
    """Show foreign keys."""
    values: Literal["rows", "retrieved"] = "rows"
    """What stands for a column's samples: values of the first rows, or those that the question may mean (SEA-SQL)."""
    values_per_column: int = Field(2, ge=0, le=10)
    """Retrieved values per column; 0: none."""
    bm25_top_k: int = Field(1000, ge=10, le=1_000_000)
    """Texts of a column, the best by BM25, among which the mentioned ones are looked for."""


class CandidateSettings(Settings):
    """Candidates: several runs of the pipeline for each question, of whose answers one is selected."""

    n: int = Field(1, ge=1, le=64)
    """Answers per question; 1: the pipeline's only one."""
    temperature: float | None = Field(None, ge=0, le=2)
    """Temperature of the backbones that write candidates; null: each backbone's own."""
    demonstrations: Literal["same", "shuffled"] = "same"
    """"shuffled": candidates from the second on see the training questions in a random order."""
    seed: int = Field(0, ge=-(2**63), lt=2**63)
    """Which random orders these are."""
    schema_formats: tuple[SchemaFormat, ...] = Field((), strict=False)
    """Schema formats of the candidates from the second on, in turns; the first has the pipeline's own. Other formats
    make answers differ at temperature 0 too."""
    backbones: tuple[str, ...] = Field((), strict=False)
    """Backbones that write candidates in turns: names in `conf/backbones`, or paths; none: the run's own."""
    select: Literal["vote", "pairwise", "tournament", "merge"] = "vote"
    """How one is selected: the most frequent result; each result against each other, or against the best so far, by
    the run's backbone; or a query that the backbone writes from the most frequent ones."""
    rows_shown: int = Field(5, ge=1, le=1000)
    """Rows of each result that the run's backbone is shown."""
    merged: int = Field(2, ge=2, le=100)
    """Most frequent results that "merge" shows."""


class PipelineSettings(Settings):
    """Settings that every pipeline has; the settings of a pipeline are a subclass with the pipeline's own."""

    kind: str
    """The pipeline: its name, or `path/to/file.py:function` of one of your own."""
    name: str
    """Name on the command line and in MLflow."""
    description: str = ""
    """One line for `crosscheck list`."""
    prompt: PromptSettings = PromptSettings()
    demonstrations: DemonstrationSettings = DemonstrationSettings()
    candidates: CandidateSettings = CandidateSettings()


class FewShotSettings(PipelineSettings):
    """A baseline: one call per question. With `demonstrations.k: 0` it is zero-shot."""

    kind: str = "few-shot"
    name: str = "few-shot"
    descriptions: bool = False
    """Show column descriptions."""


class LinkedSettings(PipelineSettings):
    """Settings of a pipeline with RSL-SQL's bidirectional linking."""

    linking: LinkingSettings = LinkingSettings()


class RslSqlSettings(LinkedSettings):
    """RSL-SQL: bidirectional linking, augmentation, selection, self-correction."""

    kind: str = "rsl-sql"
    name: str = "rsl-sql"
    prompt: PromptSettings = PromptSettings(rules="rsl_sql")
    augmentation: AugmentationSettings = AugmentationSettings()
    selection: SelectionSettings = SelectionSettings()
    correction: CorrectionSettings = CorrectionSettings()
    dac: DacCorrectionSettings | None = None
    """Correct the final SQL by decomposition afterwards (DAC); null: off."""


class DacSettings(PipelineSettings):
    """DAC on its own: few-shot SQL, then decomposed automation correction (arXiv 2408.08779)."""

    kind: str = "dac"
    name: str = "dac"
    prompt: PromptSettings = PromptSettings(schema_format="create_table", rules="none")
    demonstrations: DemonstrationSettings = DemonstrationSettings(k=5)
    descriptions: bool = False
    """Show column descriptions."""
    dac: DacCorrectionSettings = DacCorrectionSettings()


class SeaSqlSettings(PipelineSettings):
    """SEA-SQL: values in the schema, bias elimination, execution adjustment (arXiv 2408.04919)."""

    kind: str = "sea-sql"
    name: str = "sea-sql"
    prompt: PromptSettings = PromptSettings(schema_format="values", values="retrieved", rules="none")
    """Semantic-enhanced: examples behind each column, values that the question may mean (SEA-SQL, section 1)."""
    demonstrations: DemonstrationSettings = DemonstrationSettings(k=0)
    """Zero-shot; 1 and 3 are Table 9."""
    descriptions: bool = False
    """Show column descriptions."""
    eliminator: str | None = None
    """Backbone that eliminates bias: a name in `conf/backbones`, or a path; null: the stage is skipped."""
    bias_elimination: BiasEliminationSettings = BiasEliminationSettings()
    execution_adjustment: ExecutionAdjustmentSettings = ExecutionAdjustmentSettings()
    rewrite_concat: bool = False
    """Take the final SQL's concatenated columns apart (`a || ' ' || b` becomes `a, b`), as the released code does."""


class NativePromptSettings(PromptSettings):
    """The prompt that an open model for Text-to-SQL was trained with."""

    layout: NativeLayout = "omnisql"
    """Whose: "omnisql" (OmniSQL), "arctic" (Arctic-Text2SQL-R1) or "xiyan" (XiYanSQL-QwenCoder)."""
    schema_format: SchemaFormat = "omnisql"
    """As in every pipeline; where nothing is said, the layout's own: "m_schema" for "xiyan", else "omnisql"."""
    values: Literal["rows", "retrieved"] = "retrieved"
    """What stands for a column's samples: values that the question may mean, filled up with others."""
    longest_value: int = Field(40, ge=1, le=1_000_000)
    """Characters of a sample value that are shown."""

    @model_validator(mode="before")
    @classmethod
    def _with_the_layouts_format(cls, content: Any) -> Any:
        if isinstance(content, dict) and content.get("layout") == "xiyan":
            return {"schema_format": "m_schema", **content}
        return content


class NoDemonstrations(DemonstrationSettings):
    """No demonstrations: the layouts of open models have no place for any."""

    k: int = Field(0, ge=0, le=0)
    """Demonstrations per prompt: none."""


class NativeSettings(PipelineSettings):
    """One call in the prompt layout that a model was trained with: schema with values, reasoning, one fenced query."""

    kind: str = "native"
    name: str = "native"
    prompt: NativePromptSettings = NativePromptSettings()
    demonstrations: NoDemonstrations = NoDemonstrations()
    descriptions: bool = True
    """Show column descriptions."""


class AgentSettings(LinkedSettings):
    """A model in a loop with tools that read the schema, search values, run SQL, and submit a query."""

    kind: str = "agent"
    name: str = "agent"
    prompt: PromptSettings = PromptSettings(schema_format="m_schema")
    """How the tools show tables: a line per column with type, key, description and examples."""
    demonstrations: NoDemonstrations = NoDemonstrations()
    descriptions: bool = True
    """Show column descriptions."""
    tools: ToolMode | Literal["auto"] = "auto"
    """"native": tools of the endpoint's protocol; "text": fenced actions in the model's text, for models and endpoints
    without tools; "auto": native where the backbone's protocol has tools."""
    start: Literal["question", "schema", "link"] = "question"
    """What the model is shown at first besides the question: nothing; the whole schema; or the schema reduced to
    RSL-SQL's link (`linking`), with its preliminary SQL, which costs two calls more."""
    limits: AgentLimits = AgentLimits()

    @property
    def tool_mode(self) -> ToolMode:
        """How tools are called; native where that is "auto"."""
        return "text" if self.tools == "text" else "native"


P = TypeVar("P", bound=PipelineSettings)


def dac_of(settings: PipelineSettings) -> DacCorrectionSettings | None:
    """Return how a pipeline corrects by decomposition; None where it does not."""
    dac = getattr(settings, "dac", None)
    return dac if isinstance(dac, DacCorrectionSettings) else None


def without_demonstrations(settings: P) -> P:
    """Return a pipeline that shows the backbone no training questions, in any of its stages."""
    changes: dict[str, Any] = {"demonstrations": settings.demonstrations.model_copy(update={"k": 0})}
    if dac := dac_of(settings):
        changes["dac"] = dac.model_copy(update={"shots": 0, "correction_shots": 0})
    return settings.model_copy(update=changes)


def shows_descriptions(settings: Settings) -> bool:
    """Return whether a stage of a pipeline, or one with these settings, shows column descriptions."""
    for name, value in settings:
        is_on = name == "descriptions" and value is True
        if is_on or (isinstance(value, Settings) and shows_descriptions(value)):
            return True
    return False


def oracle_settings(settings: PipelineSettings) -> tuple[str, ...]:
    """Return the settings by which a pipeline is given parts of the gold SQL, as `--set` takes them.

    Such a run is an analysis and is never ranked.
    """
    linking = getattr(settings, "linking", None)
    dac = dac_of(settings)
    names = []
    if linking and linking.directions == "gold":
        names.append("pipeline.linking.directions=gold")
    if dac and dac.oracle != "none":
        names.append(f"pipeline.dac.oracle={dac.oracle}")
    return tuple(names)


def has_oracle(settings: PipelineSettings) -> bool:
    """Return whether a pipeline is given parts of the gold SQL."""
    return bool(oracle_settings(settings))

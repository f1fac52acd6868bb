"""Settings of the pipeline `agent`: how the model calls tools, where it starts, and when it has to end."""

from typing import Literal

from pydantic import Field

from tasks.settings.base import Settings
from tasks.settings.pipeline import LinkedSettings, NoDemonstrations, PromptSettings, SchemaFormat

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
    tokens: int | None = Field(None, ge=1)
    """Input and output tokens of a question's model calls from which on no further turn begins; null: no limit. A call
    whose tokens the endpoint does not report counts none."""
    usd: float | None = Field(None, gt=0)
    """Cost of a question's model calls in USD, without the reply cache, from which on no further turn begins; null: no
    limit. A call whose cost is unknown counts none."""

    @property
    def of_tools(self) -> ToolLimits:
        """The limits that a turn's result depends on."""
        return ToolLimits(**{name: getattr(self, name) for name in ToolLimits.model_fields})


class AgentPromptSettings(PromptSettings):
    """How the tools show tables."""

    schema_format: SchemaFormat = "m_schema"
    """As in every pipeline; here a line per column with type, key, description and examples."""


class AgentSettings(LinkedSettings):
    """A model in a loop with tools that read the schema, search values, run SQL, and submit a query."""

    kind: str = "agent"
    name: str = "agent"
    prompt: AgentPromptSettings = AgentPromptSettings()
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

"""The tools of an agent: what they read, their arguments, and what they return."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, Field

from tasks.backbone.protocol import Tool
from tasks.backbone.replies.json_text import reply_schema
from tasks.core.errors import did_you_mean
from tasks.core.outcome import ToolError
from tasks.core.records import ColumnName
from tasks.core.wording import storable
from tasks.database.dialects import quoted_if_needed
from tasks.database.sandbox.runner import DatabaseRunner
from tasks.database.schema import ForeignKey, Schema, Table
from tasks.database.schema_text import SchemaView, literal
from tasks.retrieval.value_index import TOP, DatabaseValues
from tasks.settings.stages import ToolLimits, ToolMode
from tasks.stages import prompts
from tasks.stages.links import quoted_column
from tasks.stages.schema_prompt import show_result

TEMPLATE = "agent"
"""The prompt template, in which the tools are described."""
VERSION = 1
"""Version of the tools, to be raised where one returns something else: turns are then taken again, and a model's reply
is requested again only behind a result that has changed."""


@dataclass(frozen=True)
class Toolbox:
    """What the tools read of a question's database beside the SQL that they run, and how much they return."""

    view: SchemaView  # the whole schema, and how it is shown
    values: DatabaseValues | None  # values of its columns; None where only the schema is known
    limits: ToolLimits
    mode: ToolMode
    version: int = VERSION

    @property
    def schema(self) -> Schema:
        """The whole schema."""
        return self.view.schema


class ToolResult(NamedTuple):
    """What a tool returns."""

    text: str  # for the model
    error: ToolError = ""
    sql: str | None = None  # the SQL that was executed or submitted


Text = Annotated[str, AfterValidator(storable)]
"""A text of a call's arguments, where JSON can spell what no store can hold."""


class TablesArguments(BaseModel):
    """Arguments of `tables`."""

    contains: Text = Field("", description="only tables whose name, description or columns contain this text")


class ColumnsArguments(BaseModel):
    """Arguments of `columns`."""

    tables: list[Text] = Field(description="names of tables")


class SearchArguments(BaseModel):
    """Arguments of `search_values`."""

    text: Text = Field(description="a value, or words of it, as the question writes it")
    table: Text = Field("", description="only columns of this table")


class SqlArguments(BaseModel):
    """Arguments of `run_sql` and `submit`."""

    sql: Text = Field(min_length=1, description="one complete query")


async def tables(box: Toolbox, runner: DatabaseRunner, arguments: TablesArguments) -> ToolResult:
    """Name the tables, with their columns where that is not too long."""
    text = arguments.contains.strip().lower()
    matching = [table for table in box.schema.tables if not text or text in _words_of(table)]
    if not matching:
        return ToolResult(f'No table contains "{arguments.contains[:100]}".')
    full = "\n".join(_table_line(table, box.schema.dialect, columns=True) for table in matching)
    if len(full) <= box.limits.characters:
        return ToolResult(full)
    return ToolResult("\n".join(_table_line(table, box.schema.dialect, columns=False) for table in matching))


async def columns(box: Toolbox, runner: DatabaseRunner, arguments: ColumnsArguments) -> ToolResult:
    """Show tables with types, keys, descriptions and sample values, and every foreign key from or to them."""
    names = {table.name.lower() for table in box.schema.tables}
    unknown = [name for name in arguments.tables if name.lower() not in names]
    if unknown or not arguments.tables:
        wrong = unknown[0][:100] if unknown else ""
        hint = did_you_mean(wrong, (table.name for table in box.schema.tables))
        return ToolResult(f'There is no table "{wrong}". {hint}', "wrong_arguments")
    tables = {name.lower() for name in arguments.tables}
    view = box.view.limited_to(tables)
    parts = replace(view, prompt=view.prompt.model_copy(update={"foreign_keys": False})).render()
    keys = (key for key in box.schema.foreign_keys if {key.table.lower(), key.parent.lower()} & tables)
    joins = "\n".join(_join_condition(key, box.schema.dialect) for key in keys)
    sections = (("", parts.schema), ("Sample values:", parts.samples), ("Foreign keys:", joins))
    descriptions = ("Column descriptions:", parts.descriptions)
    return ToolResult(
        "\n\n".join(f"{heading}\n{body}".strip() for heading, body in (*sections, descriptions) if body)
    )


async def search_values(box: Toolbox, runner: DatabaseRunner, arguments: SearchArguments) -> ToolResult:
    """Show the values of each column that are like a text."""
    if box.values is None:
        return ToolResult("The values of this database are not available.", "failed")
    columns = await box.values.retrieve(arguments.text, box.limits.values, TOP, fill=False)
    dialect, table = box.schema.dialect, arguments.table.lower()
    lines = [
        f"{quoted_column(column.column, dialect)}: " + " | ".join(literal(value) for value in column.values)
        for column in columns
        if table in ("", column.column.table.lower())
    ]
    return ToolResult("\n".join(lines) or "No column has a value like that.")


async def run_sql(box: Toolbox, runner: DatabaseRunner, arguments: SqlArguments) -> ToolResult:
    """Execute a query in the sandbox, or show its plan, and return its first rows."""
    execution = await runner.run(arguments.sql, rows=box.limits.rows)
    text = show_result(execution, box.limits.rows, counts=True)
    return ToolResult(text, "" if execution.ok else "failed", arguments.sql)


async def submit(box: Toolbox, runner: DatabaseRunner, arguments: SqlArguments) -> ToolResult:
    """Take a query as the answer, unless it fails."""
    execution = await runner.run(arguments.sql, rows=0)
    if execution.ok:
        return ToolResult("Submitted.", sql=arguments.sql)
    return ToolResult(f"Not submitted. {show_result(execution, 0)}", "failed", arguments.sql)


@dataclass(frozen=True)
class AgentTool:
    """A tool: its arguments, and what it does."""

    arguments: type[BaseModel]
    use: Callable[[Toolbox, DatabaseRunner, Any], Awaitable[ToolResult]]


TOOLS = {
    "tables": AgentTool(TablesArguments, tables),
    "columns": AgentTool(ColumnsArguments, columns),
    "search_values": AgentTool(SearchArguments, search_values),
    "run_sql": AgentTool(SqlArguments, run_sql),
    "submit": AgentTool(SqlArguments, submit),
}
"""The tools by name."""


def offered(dialect: str) -> tuple[Tool, ...]:
    """Return the tools as a request offers them; `dialect` is the name of the SQL dialect."""
    return _offered(dialect, prompts.digest(TEMPLATE))


@cache
def _offered(dialect: str, digest: str) -> tuple[Tool, ...]:
    """Return them for a digest of the template that describes them: every turn of a run offers the same."""
    return tuple(
        Tool(name, prompts.render(TEMPLATE, f"tool_{name}", dialect=dialect).strip(), parameters(name))
        for name in TOOLS
    )


@cache
def parameters(name: str) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    arguments = TOOLS[name].arguments
    required = [field for field, about in arguments.model_fields.items() if about.is_required()]
    return {**reply_schema(arguments), "required": required}


def _words_of(table: Table) -> str:
    return " ".join((table.name, table.description, *(column.name for column in table.columns))).lower()


def _table_line(table: Table, dialect: str, *, columns: bool) -> str:
    names = ", ".join(quoted_if_needed(column.name, dialect) for column in table.columns)
    listed = f"({names})" if columns else f" ({len(table.columns)} columns)"
    about = ": ".join(filter(None, ("", "view" * table.view, " ".join(table.description.split()))))
    return f"{quoted_if_needed(table.name, dialect)}{listed}{about}"


def _join_condition(key: ForeignKey, dialect: str) -> str:
    pairs = zip(key.columns, key.parent_columns, strict=True)
    return " AND ".join(
        f"{quoted_column(ColumnName(key.table, column), dialect)} = "
        f"{quoted_column(ColumnName(key.parent, parent_column), dialect)}"
        for column, parent_column in pairs
    )

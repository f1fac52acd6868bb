"""A schema and how the prompts of a question show it, as one value."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tasks.core.records import ColumnValues, Link
from tasks.database.schema import Schema
from tasks.database.schema_text import PromptParts, render
from tasks.settings.pipeline import PromptSettings


@dataclass(frozen=True)
class SchemaView:
    """A schema as the prompts of a question show it. Every stage that reads or shows a schema takes one.

    In the cache key of a stage it stands for its first three fields, the schema by its digest.
    """

    # the full schema of the question's database, or one reduced to a link; its samples are the values shown
    schema: Schema
    # format, samples per column, and whether foreign keys are shown
    prompt: PromptSettings = field(default_factory=PromptSettings)
    descriptions: bool = field(default=False, kw_only=True)  # whether column descriptions are shown
    # whether prompts about other questions show the same: nothing was left out or added for one question
    common: bool = field(default=True, compare=False, kw_only=True)

    @property
    def dialect(self) -> str:
        """The SQL dialect, as sqlglot spells it."""
        return self.schema.dialect

    @property
    def dialect_name(self) -> str:
        """The SQL dialect as its makers write it, for prompts."""
        return self.schema.dialect_name

    def render(self) -> PromptParts:
        """Return the parts of a prompt that show the schema."""
        return render(
            self.schema,
            self.prompt.schema_format,
            sample_rows=self.prompt.sample_rows,
            foreign_keys=self.prompt.foreign_keys,
            descriptions=self.descriptions,
            longest_value=self.prompt.longest_value,
        )

    def reduced_to(self, link: Link) -> "SchemaView":
        """Return the view of the link's tables and columns only; of everything where the link is empty."""
        return replace(self, schema=self.schema.reduced_to(link), common=False)

    def limited_to(self, tables: Iterable[str]) -> "SchemaView":
        """Return the view of these tables only, in full; of everything where the schema has none of them."""
        return replace(self, schema=self.schema.limited_to(tables), common=False)

    def with_values(self, values: Iterable[ColumnValues]) -> "SchemaView":
        """Return the view with retrieved values in place of sample rows, as many as configured."""
        return self.with_samples(self.schema.with_values(values), self.prompt.values_per_column)

    def with_samples(self, schema: Schema, per_column: int) -> "SchemaView":
        """Return the view of a schema with other samples, of which so many are shown per column."""
        prompt = self.prompt.model_copy(update={"sample_rows": per_column})
        return replace(self, schema=schema, prompt=prompt, common=self.common and not per_column)

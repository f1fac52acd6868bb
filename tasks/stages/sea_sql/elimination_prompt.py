"""What the eliminator is shown: the same text when it is trained and when it is asked (SEA-SQL, section 3)."""

from dataclasses import dataclass

from tasks import prompts
from tasks.database.schema import Schema
from tasks.records import Execution, Question
from tasks.settings.pipeline import PromptSettings
from tasks.stages.show import Tried, show_result, show_schema

TEMPLATE = "bias_elimination"


@dataclass(frozen=True, slots=True)
class EliminationPrompt:
    """A prompt in the instruction / input / response layout.

    Attributes:
        instruction: what to do; the same for every question of a dialect.
        input: schema with values, foreign keys, evidence, question, SQL, and what it returned.
    """

    instruction: str
    input: str

    @property
    def text(self) -> str:
        """The prompt up to where the response begins."""
        return prompts.render(TEMPLATE, instruction=self.instruction, input=self.input)


def elimination_prompt(
    question: Question,
    schema: Schema,
    prompt: PromptSettings,
    descriptions: bool,
    rows_shown: int,
    sql: str,
    execution: Execution,
) -> EliminationPrompt:
    """Return what the eliminator is shown of a question and its preliminary SQL.

    Args:
        question: the question and its evidence.
        schema: the full schema, its samples the values to show.
        prompt: how the schema is shown.
        descriptions: show column descriptions.
        rows_shown: rows of the result shown at most; `execution` has to hold as many.
        sql: the preliminary SQL.
        execution: what it returned.
    """
    parts = show_schema(schema, prompt, descriptions=descriptions)
    candidate = Tried(sql, show_result(execution, rows_shown))
    return EliminationPrompt(
        prompts.render(TEMPLATE, "instruction", dialect=schema.dialect_name).strip(),
        prompts.render(TEMPLATE, "input", parts=parts, question=question, candidate=candidate).strip(),
    )

"""The eliminator's prompt, the same text in training and in use (SEA-SQL, section 3)."""

from dataclasses import dataclass

from tasks.core.records import Execution, Question
from tasks.database.schema_view import SchemaView
from tasks.stage_runs import prompts
from tasks.stages.shown_results import ExecutedSql, show_result

TEMPLATE = "bias_elimination"


@dataclass(frozen=True, slots=True)
class EliminationPrompt:
    """A prompt in the instruction / input / response layout."""

    instruction: str  # what to do; the same for every question of a dialect
    input: str  # schema with values, foreign keys, evidence, question, SQL, and what it returned

    @property
    def text(self) -> str:
        """The prompt up to where the response begins."""
        return prompts.render(TEMPLATE, instruction=self.instruction, input=self.input)


def elimination_prompt(
    question: Question, view: SchemaView, sql: str, execution: Execution, rows_shown: int
) -> EliminationPrompt:
    """Return what the eliminator is shown of a question and its preliminary SQL.

    Of the result, `rows_shown` rows at most; `execution` has to hold as many.
    """
    candidate = ExecutedSql(sql, show_result(execution, rows_shown))
    return EliminationPrompt(
        prompts.render(TEMPLATE, "instruction", dialect=view.dialect_name).strip(),
        prompts.render(
            TEMPLATE, "input", parts=view.render(), question=question, candidate=candidate
        ).strip(),
    )

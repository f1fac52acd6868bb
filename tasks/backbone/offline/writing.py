"""From a prompt to the query that answers its question."""

from tasks.backbone.offline.adapting import adapt
from tasks.backbone.offline.clauses.reader import read_question
from tasks.backbone.offline.prompt.reading import Prompt
from tasks.backbone.offline.question.link_question import link_question
from tasks.backbone.offline.question.text import QuestionText
from tasks.backbone.offline.question.values import find_values
from tasks.backbone.offline.sql.query import Query

LIKE_ENOUGH = 0.5
"""Likeness from which a demonstration is trusted more than the model's own reading."""


def question_of(prompt: Prompt) -> QuestionText:
    """Link the prompt's question to its schema, with its evidence and its linked columns."""
    return link_question(prompt.question, prompt.schema, prompt.evidence, prompt.linked_columns)


def read_query(prompt: Prompt) -> Query | None:
    """Return the query that the prompt's question asks for, None where there is no question or no schema."""
    return read_question(question_of(prompt)) if prompt.readable else None


def own_sql(prompt: Prompt) -> str:
    """Return the SQL of the model's own reading of the question, "" without one."""
    query = read_query(prompt)
    return query.sql(prompt.schema) if query else ""


def write_sql(prompt: Prompt) -> str:
    """Return the SQL for the prompt's question: a demonstration that is like enough, else the model's own reading."""
    if not (prompt.readable and prompt.examples):
        return own_sql(prompt)
    text = question_of(prompt)
    values = find_values(text)
    adapted = [found for example in prompt.examples if (found := adapt(example, text, values))]
    best = max(adapted, key=lambda found: found.likeness, default=None)
    return best.sql if best and best.likeness >= LIKE_ENOUGH else own_sql(prompt)

"""From a prompt to the query that answers its question."""

from collections.abc import Sequence

from tasks.backbone.offline.adapting import Adaptation, adapt
from tasks.backbone.offline.grammar import read_question
from tasks.backbone.offline.query import Query, render
from tasks.backbone.offline.question import question_text
from tasks.backbone.offline.reading import Example, Prompt
from tasks.backbone.offline.text import QuestionText
from tasks.backbone.offline.values import find_values
from tasks.records import ColumnName

SAME_DATABASE, OTHER_DATABASE = 0.5, 0.98
"""Likeness from which an adapted demonstration is trusted more than the model's own reading."""


def read_query(prompt: Prompt) -> Query | None:
    """Return the query that the prompt's question asks for, None where there is no question or no schema."""
    if not prompt.question.strip() or not prompt.schema.tables:
        return None
    return read_question(question_of(prompt))


def write_sql(prompt: Prompt) -> str:
    """Return the SQL for the prompt's question: an adapted demonstration or the model's own reading, else ""."""
    if not prompt.question.strip() or not prompt.schema.tables:
        return ""
    text = question_of(prompt)
    adapted = best_adaptation(prompt.examples, text)
    if adapted is not None:
        return adapted.sql
    query = read_question(text)
    return render(query, prompt.schema) if query else ""


def best_adaptation(examples: Sequence[Example], text: QuestionText) -> Adaptation | None:
    """Return the demonstration whose question is most like the one asked, None if none is like enough."""
    values = find_values(text)
    best: Adaptation | None = None
    for example in examples:
        found = adapt(example, text, values)
        if found is None or found.likeness < (SAME_DATABASE if found.same_database else OTHER_DATABASE):
            continue
        if best is None or found.likeness > best.likeness:
            best = found
    return best


def question_of(prompt: Prompt) -> QuestionText:
    """Link the prompt's question to its schema, with its evidence and its linked columns."""
    return question_text(prompt.question, prompt.schema, prompt.evidence, linked(prompt))


def linked(prompt: Prompt) -> frozenset[ColumnName]:
    """Return the columns that the section "Linked columns" names."""
    found: set[ColumnName] = set()
    for name in prompt.linked_columns:
        table, dot, column = name.replace("`", "").rpartition(".")
        found.update(prompt.schema.find(column, table) if dot else ())
    return frozenset(found)

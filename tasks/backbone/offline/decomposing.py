"""DAC's sub-tasks: what each word refers to, a query before its database is known, correction by feedback."""

import re
from dataclasses import replace
from difflib import SequenceMatcher

from tasks.backbone.offline.correcting import correct
from tasks.backbone.offline.english.lexicon import STOP
from tasks.backbone.offline.english.words import tokenize
from tasks.backbone.offline.prompt.reading import Attempt, Prompt
from tasks.backbone.offline.question.mentions import TableMention
from tasks.backbone.offline.question.text import QuestionText
from tasks.backbone.offline.question.value_columns import choose_column
from tasks.backbone.offline.question.values import find_values
from tasks.backbone.offline.writing import own_sql, question_of

_FAILURE = re.compile(r"(?:Error|Time-out): .*", re.DOTALL)
_PLACEHOLDER = re.compile(r"(?<![\w`])_(?![\w`])")


def align(prompt: Prompt) -> list[dict[str, str | None]]:
    """Return what each token of the question refers to: values first, then tables said in full, then columns."""
    if not prompt.readable:
        return []
    text = question_of(prompt)
    meanings = _meanings(text)
    pairs = ((token, *meanings.get(index, (None, None))) for index, token in enumerate(text.tokens))
    return [{"token": token.text, "schema": schema, "type": kind} for token, schema, kind in pairs]


def correct_by_feedback(prompt: Prompt) -> str:
    """Return a query that follows the feedback, else the one that was given.

    After a failure that is a query not tried yet. After feedback on missing names it is the model's own reading of
    the question, if that has them and everything that the given query uses. A skeleton changes nothing.
    """
    sql, feedback = prompt.current_sql, prompt.feedback
    failure = _FAILURE.search(feedback)
    if failure or not sql:
        attempts = (Attempt(sql, failure[0] if failure else ""),) if sql else ()
        return correct(replace(prompt, attempts=attempts, earlier=()))
    if _PLACEHOLDER.search(feedback):
        return sql
    own = own_sql(prompt)
    return own if _names(sql, prompt) | _names(feedback, prompt) <= _names(own, prompt) else sql


def invent(prompt: Prompt) -> str:
    """Return the query of the example whose question is most alike, without examples one of a table's column."""
    asked = _masked(prompt.question)
    near = ((SequenceMatcher(None, asked, _masked(one.question)).ratio(), one.sql) for one in prompt.examples)
    return max(near, default=(0.0, "SELECT a FROM b" if asked else ""))[1]


def _masked(question: str) -> list[str]:
    return [token.stem if token.kind == "word" else f"<{token.kind}>" for token in tokenize(question)]


def _meanings(text: QuestionText) -> dict[int, tuple[str, str]]:
    found: dict[int, tuple[str, str]] = {}
    for value in find_values(text):
        if value.exact and (choice := choose_column(text, value, ())):
            found |= dict.fromkeys(range(value.start, value.end), (str(choice.column), "val"))
    for mention in text.mentions:
        is_table = isinstance(mention, TableMention)
        name = text.table_of(mention) if isinstance(mention, TableMention) else str(text.resolve(mention))
        for index in range(mention.start, mention.end) if mention.score >= 0.9 else ():
            if text.tokens[index].lower not in STOP:
                found.setdefault(index, (name, "tbl" if is_table else "col"))
    return found


def _names(text: str, prompt: Prompt) -> set[str]:
    known = {table.name.lower() for table in prompt.schema.tables}
    known |= {column.name.column.lower() for column in prompt.schema.columns}
    return {name for name in known if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text.lower())}

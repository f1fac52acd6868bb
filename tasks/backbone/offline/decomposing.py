"""DAC's prompts: which word means what, the structure of a query before its database, correction by feedback."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from tasks.backbone.offline.correcting import correct
from tasks.backbone.offline.lexicon import STOP
from tasks.backbone.offline.query import render
from tasks.backbone.offline.reading import Attempt, Prompt, read_prompt
from tasks.backbone.offline.text import QuestionText
from tasks.backbone.offline.value_columns import choose_column
from tasks.backbone.offline.values import find_values
from tasks.backbone.offline.words import tokenize
from tasks.backbone.offline.writing import question_of, read_query
from tasks.backbone.protocol import Message
from tasks.records import ColumnName

_FENCED_EXAMPLE = re.compile(
    r"^(Question: .*?\n(?:Evidence: .*?\n)?)SQL:\n```sql\n(.*?)\n```$", re.MULTILINE | re.DOTALL
)
_NAME = r"(?:`(?:[^`]|``)+`|\w+)"
_MISSING = re.compile(rf"the (table|column) ({_NAME}(?:\.{_NAME})?)")
_STRUCTURE = re.compile(
    r"\b(?:select|distinct|count|sum|avg|min|max|join|where|group by|having|order by|desc|limit|union|intersect|except"
    r"|like|between|in|not|or|case|is null|is not null|cast|strftime)\b|[<>]=?"
)
_SUPERLATIVE = re.compile(r"\b(?:most|least|fewest|(?!the)\w{2,}est)\b")
_ALIKE = 0.8
"""Likeness of two questions without their values, from which their queries are taken to be built alike."""


def decomposed(messages: Sequence[Message]) -> str | None:
    """Return the reply to one of DAC's prompts as JSON text, None where the conversation is none of them."""
    last = messages[-1].content if messages else ""
    if '"alignment"' in section(last, "Reply"):
        return json.dumps({"alignment": list(_alignment(read_prompt(messages)))}, ensure_ascii=False)
    feedback = section(last, "Feedback")
    if feedback:
        return _sql(corrected(read_prompt(messages), section(last, "Current SQL"), feedback))
    if '"sql"' in section(last, "Reply") and "make up names" in section(last, "Task"):
        return _sql(invented(read_prompt(messages)))
    return None


def with_plain_examples(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the conversation with fenced examples written as those of every other prompt, without their schemas."""
    return tuple(replace(message, content=_plain_examples(message.content)) for message in messages)


def corrected(prompt: Prompt, sql: str, feedback: str) -> str:
    """Return a query that heeds the feedback, else the one that was given.

    After an error that is a query not tried yet. Otherwise the model has one idea only, its own reading of the
    question: it says so if that uses what the given one uses and everything that is missing, or is built as asked.
    """
    if feedback.startswith(("Running the query fails.", "There is no query.")):
        attempts = (Attempt(sql, feedback.removeprefix("Running the query fails.").strip()),) if sql else ()
        return correct(replace(prompt, attempts=attempts, earlier=()))
    own = read_query(prompt)
    if own is None:
        return sql
    written = render(own, prompt.schema)
    missing = [found[2].replace("`", "") for found in _MISSING.finditer(feedback)]
    if missing:
        wanted = _names(sql, prompt) | {name.rpartition(".")[2].lower() for name in missing}
        return written if wanted <= _names(written, prompt) else sql
    expected = feedback.rpartition("\n")[2]
    return written if _structure(expected) == _structure(written) else sql


def invented(prompt: Prompt) -> str:
    """Return a query with invented names: that of the example whose question is most alike, else one by cue words."""
    asked = _masked(prompt.question)
    near = [(SequenceMatcher(None, asked, _masked(one.question)).ratio(), one.sql) for one in prompt.examples]
    likeness, sql = max(near, key=lambda one: one[0], default=(0.0, ""))
    return sql if likeness >= _ALIKE else _by_cues(prompt.question)


def section(text: str, heading: str) -> str:
    """Return the body of a section of a message, "" where there is none."""
    found = re.search(rf"^### {heading}\n(.*?)(?=^### |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[1].strip() if found else ""


def _sql(sql: str) -> str:
    return json.dumps({"sql": re.sub(r"\s+", " ", sql).strip()}, ensure_ascii=False)


def _plain_examples(text: str) -> str:
    body = section(text, "Examples")
    if "\n```sql\n" not in body:
        return text
    plain = [f"{found[1]}SQL: {' '.join(found[2].split())}" for found in _FENCED_EXAMPLE.finditer(body)]
    return text.replace(body, "\n\n".join(plain), 1)


def _alignment(prompt: Prompt) -> Iterator[dict[str, str | None]]:
    """Yield what each token of the question means: values first, then tables said in full, then columns."""
    if not prompt.question.strip() or not prompt.schema.tables:
        return
    text = question_of(prompt)
    meanings = _meanings(text)
    for index, token in enumerate(text.tokens):
        schema, kind = meanings.get(index, (None, None))
        yield {"token": token.text, "schema": schema, "type": kind}


def _meanings(text: QuestionText) -> dict[int, tuple[str, str]]:
    found: dict[int, tuple[str, str]] = {}
    for value in find_values(text):
        choice = choose_column(text, value, ()) if value.exact else None
        if choice is not None:
            found.update(dict.fromkeys(range(value.start, value.end), (_dotted(choice.column), "val")))
    spans = {(mention.start, mention.end) for mention in text.columns}
    for named in text.tables:
        if named.score >= 0.9 and (named.start, named.end) not in spans:
            for index in range(named.start, named.end):
                found.setdefault(index, (text.table_of(named), "tbl"))
    for mention in text.columns:
        for index in range(mention.start, mention.end):
            if mention.score >= 0.9 and text.tokens[index].lower not in STOP:
                found.setdefault(index, (_dotted(text.resolve(mention)), "col"))
    return found


def _dotted(column: ColumnName) -> str:
    return f"{column.table}.{column.column}"


def _masked(question: str) -> list[str]:
    return [token.stem if token.kind == "word" else f"<{token.kind}>" for token in tokenize(question)]


def _by_cues(question: str) -> str:
    text = question.lower()
    counting = re.search(r"\bhow many\b|\bnumber of\b", text) is not None
    grouped = re.search(r"\b(?:for each|per|of each|in each)\b", text) is not None
    best = _SUPERLATIVE.search(text) is not None
    chosen = "a, count(*)" if counting and grouped else "count(*)" if counting else "a"
    value = re.search(r"\d|['\"]|\s[A-Z]", question.strip()[1:]) is not None
    where = " WHERE c = 'x'" if value else ""
    group = " GROUP BY a" if grouped else ""
    order = " ORDER BY d DESC LIMIT 1" if best else ""
    return f"SELECT {chosen} FROM b{where}{group}{order}"


def _names(sql: str, prompt: Prompt) -> set[str]:
    """Return the names of the schema that a query says, in lower case."""
    known = {table.name.lower() for table in prompt.schema.tables}
    known |= {column.name.column.lower() for column in prompt.schema.columns}
    return {name for name in known if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql.lower())}


def _structure(sql: str) -> Counter[str]:
    """Count the words that make up a query's structure, leaving out what stands in strings and quoted names."""
    bare = re.sub(r"'(?:[^']|'')*'|`(?:[^`]|``)*`", "_", sql.lower())
    return Counter(" ".join(found.split()) for found in _STRUCTURE.findall(bare))

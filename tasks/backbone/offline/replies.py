"""The other things a pipeline asks for: links, keywords, conditions, descriptions, alignments."""

import re
from dataclasses import replace

from sqlglot import exp

from tasks.backbone.offline.prompt.english import STOP, split_identifier
from tasks.backbone.offline.prompt.reading import Attempt, Prompt
from tasks.backbone.offline.question.mentions import TableMention
from tasks.backbone.offline.question.naming import key_column
from tasks.backbone.offline.question.query import Query
from tasks.backbone.offline.writing import own_sql, question_of, read_query
from tasks.core.records import ColumnName

_KEYWORDS = (
    "SELECT", "DISTINCT", "COUNT", "SUM", "AVG", "MIN", "MAX", "JOIN", "WHERE", "BETWEEN", "NOT", "IN", "LIKE", "OR",
    "IS NULL", "GROUP BY", "HAVING", "ORDER BY", "DESC", "LIMIT", "CAST", "STRFTIME", "INTERSECT",
)  # fmt: skip
_PHRASE = re.compile(r"(?:\"[^\"]*\"|'[^']*'|[^,;?!\"])+")
_CLAUSE = re.compile(
    r"\s(?=(?:whose|who|that|which|where|with|without|in|from|between|before|after|named|or|older)\s)"
)


def link_of(prompt: Prompt) -> dict[str, list[str]]:
    """Return the tables and columns that the model's own query needs, those linked before, and what the question names.

    The only number in the task is how many columns of a table may be named.
    """
    query = read_query(prompt)
    if query is None:
        return {"tables": [], "columns": []}
    schema, text, tree = prompt.schema, question_of(prompt), query.build(prompt.schema)
    tables = {table.name for table in tree.find_all(exp.Table)}
    names = {column.name for column in tree.find_all(exp.Column)}
    used = (c.name for c in schema.columns if c.name.table in tables and c.name.column in names)
    wanted = dict.fromkeys((*used, *prompt.linked_before))
    tables.update(table for mention in text.tables for table in mention.tables[:2])
    keys = (key_column(schema, table.name) for table in schema.tables if table.name in tables)
    wanted |= dict.fromkeys(key for key in keys if key)
    for named in text.columns:
        near = [column for column in named.columns if column.table in tables]
        wanted |= dict.fromkeys(near[:3] or named.columns[:1])
    limit = re.search(r"\d{1,4}", prompt.task)
    kept: list[ColumnName] = []
    for column in wanted:
        if not limit or sum(other.table == column.table for other in kept) < int(limit[0]):
            kept.append(column)
    tables.update(column.table for column in kept)
    return {
        "tables": [table.name for table in schema.tables if table.name in tables],
        "columns": [str(column.name) for column in schema.columns if column.name in kept],
    }


def keywords_of(prompt: Prompt) -> list[str]:
    """Return the SQL keywords of the model's own query."""
    sql = re.sub(r"'(?:[^']|'')*'|`(?:[^`]|``)*`", "", own_sql(prompt)).upper()
    return [keyword for keyword in _KEYWORDS if re.search(rf"\b{keyword}\b", sql)]


def conditions_of(question: str) -> list[str]:
    """Return the phrases behind the first of the question, in its own words; quoted text stays in one piece."""
    phrases = [part.strip() for piece in _PHRASE.findall(question[:4000]) for part in _CLAUSE.split(piece)]
    return [phrase for phrase in dict.fromkeys(phrases[1:]) if len(phrase.split()) > 1]


def describe(prompt: Prompt) -> dict[str, str]:
    """Return a sentence for each column to describe, made of its name and samples."""
    known = {column.name.column: column for column in prompt.schema.columns}
    sentences = {}
    for name in prompt.described_columns or known:
        column = known.get(name)
        samples = ", ".join(sample[:40] for sample in dict.fromkeys(column.samples[:3])) if column else ""
        words = " ".join(split_identifier(name)) or name
        sentences[name] = f"The {words}, such as {samples}." if samples else f"The {words}."
    return sentences


def align(prompt: Prompt) -> list[dict[str, str | None]]:
    """Return which table or column each token of the question names."""
    if not prompt.readable:
        return []
    text = question_of(prompt)
    found: dict[int, tuple[str, str]] = {}
    for mention in reversed(text.mentions):
        is_table = isinstance(mention, TableMention)
        name = text.table_of(mention) if isinstance(mention, TableMention) else str(text.resolve(mention))
        found |= dict.fromkeys(range(mention.start, mention.end), (name, "tbl" if is_table else "col"))
    named = {index: pair for index, pair in found.items() if text.tokens[index].lower not in STOP}
    pairs = ((token, *named.get(index, (None, None))) for index, token in enumerate(text.tokens))
    return [{"token": token.text, "schema": schema, "type": kind} for token, schema, kind in pairs]


_FAILED = re.compile(r"error|time-?out|timed out|there is no query", re.IGNORECASE)
_EMPTY = re.compile(r"(?:no rows|empty|\(?0 rows\)?|)\.?", re.IGNORECASE)
_FAILURE = re.compile(r"(?:Error|Time-out): ")


def correct(prompt: Prompt) -> str:
    """Return the first form of the model's own reading that was not tried, else the query that was given."""
    tried = [*(attempt.sql for attempt in prompt.attempts), *prompt.earlier]
    own = read_query(prompt)
    for query in (own, *own.simpler()) if own else ():
        sql = query.sql(prompt.schema)
        if not any(same_sql(sql, other) for other in tried):
            return sql
    return tried[0].strip() if tried else ""


def select(prompt: Prompt) -> str:
    """Return the query whose result surprises least, the last of those that tie; a new one when none runs."""
    if all(failed(attempt) for attempt in prompt.attempts):
        return correct(prompt)
    own = read_query(prompt)
    return min(reversed(prompt.attempts), key=lambda attempt: _surprise(attempt, own)).sql.strip()


def compare(prompt: Prompt) -> int:
    """Return the number, from 1, of the query whose result surprises least, the first of those that tie."""
    own = read_query(prompt)
    ranked = sorted(enumerate(prompt.attempts, 1), key=lambda each: _surprise(each[1], own))
    return ranked[0][0] if ranked else 1


def correct_by_feedback(prompt: Prompt) -> str:
    """Return a query that has not been tried after a failure, else the one that was given."""
    failure = _FAILURE.search(prompt.feedback)
    if prompt.current_sql and not failure:
        return prompt.current_sql
    attempts = (Attempt(prompt.current_sql, ""),) if prompt.current_sql else ()
    return correct(replace(prompt, attempts=attempts, earlier=()))


def reason(prompt: Prompt) -> str:
    """Return the database's message about the last query as the reason why it fails."""
    message = prompt.attempts[-1].result if prompt.attempts else "There is no query."
    return f"The database says: {message.removeprefix('Error:').strip().rstrip('.')}."


def failed(attempt: Attempt) -> bool:
    """Whether a query did not run to its end."""
    return not attempt.sql.strip() or bool(_FAILED.match(attempt.result.strip()))


def same_sql(left: str, right: str) -> bool:
    """Whether two texts are the same query but for blanks, case and a final semicolon."""
    one, other = (" ".join(text.split()).strip(" ;").lower() for text in (left, right))
    return one == other


def _surprise(attempt: Attempt, own: Query | None) -> float:
    """Return how odd a result is: a failure, no row, only NULL or 0, other columns than asked for."""
    if failed(attempt):
        return 100.0
    if _EMPTY.fullmatch(attempt.result.strip()):
        return 50.0
    header, *rows = attempt.result.strip().splitlines()
    cells = {cell.strip() for row in rows for cell in row.split(" | ")}
    odd = 20.0 if cells <= {"NULL", ""} else 10.0 if cells == {"0"} else 0.0
    return odd + (2.0 * abs(len(header.split(" | ")) - len(own.select)) if own else 0.0)

"""The other things a pipeline asks for: links, keywords, conditions."""

import re

from tasks.backbone.offline.joins import join_tree
from tasks.backbone.offline.naming import key_column
from tasks.backbone.offline.query import render
from tasks.backbone.offline.reading import Prompt
from tasks.backbone.offline.words import tokenize
from tasks.backbone.offline.writing import question_of, read_query
from tasks.records import ColumnName, Link

_KEYWORDS = (
    "SELECT", "DISTINCT", "COUNT", "SUM", "AVG", "MIN", "MAX", "JOIN", "WHERE", "BETWEEN", "NOT IN", "IN", "LIKE", "OR",
    "IS NULL", "IS NOT NULL", "GROUP BY", "HAVING", "ORDER BY", "DESC", "ASC", "LIMIT", "CASE WHEN", "CAST", "IIF",
    "STRFTIME", "UNION", "INTERSECT", "EXCEPT",
)  # fmt: skip
_CUT = re.compile(
    r"\s*(?:[,;?!]|\.(?=\s|$))\s*|\s+(?=(?:whose|who|that|which|where|with|without|in|from|for each|per|between|before"
    r"|after|ordered|sorted|having|named|called|but|and|or)\s)",
    re.IGNORECASE,
)
_CONDITIONAL = re.compile(
    r"\b(?:whose|where|with|without|in|from|between|before|after|named|called|not|no|never|more|less|fewer|least|most|"
    r"over|under|above|below|highest|lowest|largest|smallest|each|per|only|both|older|younger|than|same|equal)\b",
    re.IGNORECASE,
)


def link_of(prompt: Prompt) -> Link:
    """Return the tables and columns that the model's own query needs, with every column the question names.

    Hints are kept. A table has no more columns than the prompt allows; those of the query go first.
    """
    query = read_query(prompt)
    if query is None:
        return Link()
    schema = prompt.schema
    wanted: dict[ColumnName, None] = {}
    tables: dict[str, None] = {}
    for part in query.queries():
        wanted.update(dict.fromkeys(part.columns))
        tree = join_tree(schema, part.used_tables)
        tables.update(dict.fromkeys(tree.tables))
        for keys in tree.keys:
            for pair in keys:
                wanted.update({pair.child: None, pair.parent: None})
    for hint in prompt.hints:
        owner, _, hinted = hint.replace("`", "").rpartition(".")
        wanted.update(dict.fromkeys(schema.find(hinted, owner)))
    text = question_of(prompt)
    for mention in text.tables:
        tables.update(dict.fromkeys(mention.tables[:2]))
    for name in tables:
        if key := key_column(schema, name):
            wanted.setdefault(key)
    for mention_of_column in text.columns:
        near = [c for c in mention_of_column.columns if c.table in tables]
        wanted.update(dict.fromkeys(near[:3] or mention_of_column.columns[:1]))
    kept: list[ColumnName] = []
    for column in wanted:
        if sum(other.table == column.table for other in kept) < prompt.columns_per_table:
            kept.append(column)
    order = {column.name: index for index, column in enumerate(schema.columns)}
    kept.sort(key=lambda column: order[column])
    named = {column.table for column in kept} | set(tables)
    return Link(tuple(table.name for table in schema.tables if table.name in named), tuple(kept))


def keywords_of(prompt: Prompt) -> tuple[str, ...]:
    """Return the SQL keywords of the model's own query."""
    query = read_query(prompt)
    if query is None:
        return ()
    sql = re.sub(r"'(?:[^']|'')*'|`(?:[^`]|``)*`", "", render(query, prompt.schema)).upper()
    return tuple(keyword for keyword in _KEYWORDS if re.search(rf"\b{keyword}\b", sql))


def conditions_of(prompt: Prompt) -> tuple[str, ...]:
    """Return the phrases of the question that narrow its answer, in its own words.

    Quoted text stays in one piece. A question without any condition gives an empty list.
    """
    kept: list[str] = []
    hidden = [token.text for token in tokenize(prompt.question) if token.kind == "quoted"]
    masked = prompt.question[:4000]
    for index, text in enumerate(hidden):
        masked = masked.replace(text, f"\x00{index}\x00", 1)
    for phrase in _CUT.split(masked):
        phrase = re.sub(r"\x00(\d+)\x00", lambda match: hidden[int(match[1])], phrase).strip()
        has_value = any(token.kind in ("quoted", "number") for token in tokenize(phrase)) or re.search(
            r"\s[A-Z]", phrase
        )
        if len(phrase.split()) > 1 and (has_value or _CONDITIONAL.search(phrase)):
            kept.append(phrase)
    return tuple(dict.fromkeys(kept))

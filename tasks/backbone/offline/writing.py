"""From a prompt to the query that answers its question."""

from collections.abc import Sequence

from tasks.backbone.offline.adapting import adapt
from tasks.backbone.offline.clauses.reader import read_question
from tasks.backbone.offline.prompt.english import Token, tokenize
from tasks.backbone.offline.prompt.reading import Prompt
from tasks.backbone.offline.prompt.schema import PromptSchema
from tasks.backbone.offline.question.evidence import read_evidence
from tasks.backbone.offline.question.mentions import ColumnMention, column_mentions, table_mentions
from tasks.backbone.offline.question.query import Query
from tasks.backbone.offline.question.text import QuestionText
from tasks.backbone.offline.question.values import find_values
from tasks.core.records import ColumnName

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


_COUNTING = ("number", "numbers", "amount", "count", "total")


def link_question(
    question: str, schema: PromptSchema, evidence: str = "", preferred: frozenset[ColumnName] = frozenset()
) -> QuestionText:
    """Tokenize a question and link it; where the evidence says what words refer to, they refer to nothing else."""
    tokens = tokenize(question)
    found = column_mentions(tokens, schema)
    full = [mention for mention in found if mention.score >= 0.9]
    tables = tuple(
        mention
        for mention in table_mentions(tokens, schema)
        if mention.score >= 0.9 or not any(m.start <= mention.start and mention.end <= m.end for m in full)
    )
    bare = QuestionText(tokens, schema, (), tables, preferred)
    hints = read_evidence(
        evidence, tokens, schema, lambda names: bare.resolve(ColumnMention(0, 0, names, 1.0))
    )
    columns = [
        mention
        for mention in found
        if not _is_counting_word(tokens, mention)
        and not any(hint.start < mention.end and mention.start < hint.end for hint in hints)
        and not (
            mention.score < 0.6 and any(t.score >= 0.9 and t.start <= mention.start < t.end for t in tables)
        )
    ]
    columns += (
        ColumnMention(hint.start, hint.end, (column,), 1.4) for hint in hints for column in hint.columns
    )
    columns.sort(key=lambda mention: mention.start)
    pointed = frozenset(column for hint in hints for column in hint.columns)
    return QuestionText(tokens, schema, tuple(columns), tables, preferred | pointed, hints)


def _is_counting_word(tokens: Sequence[Token], mention: ColumnMention) -> bool:
    """Whether a mention is only the "number" of "number of ...", or a participle such as "named"."""
    words = [token.lower for token in tokens[mention.start : mention.end]]
    following = tokens[mention.end].lower if mention.end < len(tokens) else ""
    if words == ["number"] and following in ("", ".", ",", "?", ";", "and"):
        return any(token.lower == "many" for token in tokens)
    if len(words) == 1:
        return words[0] in ("named", "titled", "entitled") or (words[0] in _COUNTING and following == "of")
    return words[0] in _COUNTING and words[1] == "of" and mention.score < 1.0

"""Links a question to a schema: tokens, mentions, and what the evidence says of it."""

from collections.abc import Sequence

from tasks.backbone.offline.english.words import Token, tokenize
from tasks.backbone.offline.prompt.schema import PromptSchema
from tasks.backbone.offline.question.evidence import read_evidence
from tasks.backbone.offline.question.mentions import ColumnMention, column_mentions, table_mentions
from tasks.backbone.offline.question.text import QuestionText
from tasks.core.records import ColumnName

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

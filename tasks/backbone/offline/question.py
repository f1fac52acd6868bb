"""A question linked to a schema: tokens, mentions, and what the evidence says of it."""

from tasks.backbone.offline.evidence import read_evidence
from tasks.backbone.offline.linking import ColumnMention, TableMention, column_mentions, table_mentions
from tasks.backbone.offline.naming import name_columns
from tasks.backbone.offline.schema import PromptSchema
from tasks.backbone.offline.text import QuestionText
from tasks.backbone.offline.words import Token, stems_of, tokenize
from tasks.records import ColumnName

_COUNTING = ("number", "numbers", "amount", "count", "total")


def question_text(
    question: str,
    schema: PromptSchema,
    evidence: str = "",
    preferred: frozenset[ColumnName] = frozenset(),
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
        and not (mention.score < 0.6 and _inside_table(mention, tables))
    ]
    columns.extend(
        ColumnMention(hint.start, hint.end, (column,), 1.4)
        for hint in hints
        if not hint.condition and not hint.aggregate
        for column in hint.columns
    )
    shared = _shared_heads(tokens, columns, schema)
    columns = [
        m for m in columns if not any(m.start < one.end and one.start < m.end for one in shared)
    ] + shared
    columns = [one for mention in columns for one in _full_name(tokens, mention, tables, schema)]
    columns.sort(key=lambda mention: mention.start)
    pointed = frozenset(column for hint in hints for column in hint.columns)
    return QuestionText(tokens, schema, tuple(columns), tables, preferred | pointed, hints)


def _full_name(
    tokens: tuple[Token, ...], mention: ColumnMention, tables: tuple[TableMention, ...], schema: PromptSchema
) -> list[ColumnMention]:
    """Return first and last name for "full name", where a table that is said keeps the two apart."""
    previous = tokens[mention.start - 1].lower if mention.start else ""
    words = [token.lower for token in tokens[mention.start : mention.end]]
    if "full" not in (previous, words[0]) or words[-1] not in ("name", "names") or mention.score >= 1.0:
        return [mention]
    for said in tables:
        names = name_columns(schema, said.tables[0])
        if len(names) == 2:
            return [ColumnMention(mention.start, mention.end, (name,), 1.0) for name in names]
    return [mention]


def _inside_table(mention: ColumnMention, tables: tuple[TableMention, ...]) -> bool:
    """Whether a mention of a part of a name is the full name of a table."""
    return any(t.score >= 0.9 and t.start <= mention.start and mention.end <= t.end for t in tables)


def _shared_heads(
    tokens: tuple[Token, ...], mentions: list[ColumnMention], schema: PromptSchema
) -> list[ColumnMention]:
    """Return mentions whose last word is said only once, at the end: "first and last name", "start and end dates"."""
    found = []
    for mention in mentions:
        index = mention.start - 2
        if mention.end - mention.start < 2 or index < 0 or tokens[index + 1].lower not in ("and", "or", ","):
            continue
        if any(other.start <= index < other.end and other.score >= 0.6 for other in mentions):
            continue
        for name in mention.columns:
            head = schema.column(name).stems[-1]
            table = schema.table(name.table)
            for column in table.columns if table else ():
                if (
                    column.stems[-1:] == (head,)
                    and tokens[index].stem in column.stems[:-1]
                    and column.name != name
                ):
                    found.append(ColumnMention(index, index + 1, (column.name,), 1.0))
                    break
            else:
                continue
            break
    return found


def _is_counting_word(tokens: tuple[Token, ...], mention: ColumnMention) -> bool:
    """Whether a mention is only the "number" of "number of ...", or a participle such as "named"."""
    words = [token.lower for token in tokens[mention.start : mention.end]]
    following = tokens[mention.end].lower if mention.end < len(tokens) else ""
    previous = tokens[mention.start - 1].lower if mention.start else ""
    if words == ["number"] and previous == "the" and following in ("", ".", ",", "?", ";", "and"):
        return any(token.lower == "many" for token in tokens)
    if len(words) == 1:
        return words[0] in ("named", "titled", "entitled") or (words[0] in _COUNTING and following == "of")
    return (
        words[0] in _COUNTING
        and words[1] == "of"
        and all(len(_own_words(name)) == 1 for name in mention.columns)
    )


def _own_words(name: ColumnName) -> list[str]:
    """Return the words of a column's name that its table's name does not have."""
    return [word for word in stems_of(name.column) if word not in stems_of(name.table)]

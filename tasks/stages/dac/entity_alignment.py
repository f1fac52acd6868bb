"""From an alignment list to linked tokens: repaired against the question, completed by names (DAC, section 3.2).

Pure functions: no model call.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from rapidfuzz.distance import LCSseq

from tasks.core.dac_records import AlignedToken, Entities, EntityType
from tasks.core.records import ColumnName
from tasks.database.schema import Schema
from tasks.retrieval.name_matching import QuestionWords, name_words, question_tokens, stem
from tasks.sql.elements import Elements
from tasks.stages.links import read_link


@dataclass(frozen=True, slots=True)
class AlignmentItem:
    """One item of an alignment list: a token, and what it is aligned to (None: nothing)."""

    token: str
    entity: str | None
    type: str | None


@dataclass(frozen=True, slots=True)
class Resolved:
    """A question's tokens, linked."""

    tokens: tuple[AlignedToken, ...]  # every token, in order
    dropped: tuple[str, ...]  # entities that the schema does not have, as they were given
    without_meaning: frozenset[int] = frozenset()  # places of tokens that the list says mean nothing


def resolve_given(question: str, given: Iterable[AlignmentItem], shown: Schema, full: Schema) -> Resolved:
    """Put a list's items at the question's own tokens, by their longest common subsequence.

    Models leave tokens out, write several as one, or spell them differently: what is not in the question is left
    out, in its order, and what is left out stays unlinked.

    Args:
        question: the question.
        given: the list, in order.
        shown: the schema that the backbone saw; its names win.
        full: the full schema.
    """
    tokens = question_tokens(question)
    pieces = [(piece, item) for item in given for piece in question_tokens(item.token)]
    aligned = [AlignedToken(token) for token in tokens]
    dropped: dict[str, None] = {}
    without_meaning = set()
    for block in LCSseq.opcodes([piece.lower() for piece, _ in pieces], [token.lower() for token in tokens]):
        if block.tag != "equal":
            continue
        for offset in range(block.src_end - block.src_start):
            item = pieces[block.src_start + offset][1]
            place = block.dest_start + offset
            if item.entity is None:
                without_meaning.add(place)
            if item.entity is None or not stem(tokens[place]):
                continue
            meaning = _meaning(item.entity, item.type, shown) or _meaning(item.entity, item.type, full)
            if meaning is None:
                dropped[item.entity] = None
            else:
                aligned[place] = replace(meaning, token=tokens[place])
    return Resolved(tuple(aligned), tuple(dropped), frozenset(without_meaning))


def link_by_name(
    tokens: Sequence[AlignedToken],
    shown: Schema,
    full: Schema,
    used: Elements,
    but: Collection[int] = (),
) -> tuple[AlignedToken, ...]:
    """Link tokens that are still unlinked that name a table or column, except those at the places of `but`.

    The longest names first, those of the shown tables before the others. Of columns that share a name, one that
    the SQL uses wins, then the first of the shown ones; outside of the shown tables a column is linked only
    where its name is the only one of its kind, because a guess would become a false correction.

    >>> from tasks.database.schema import Column, Table
    >>> tables = (Table("singer", (Column("first_name"),)), Table("song", (Column("title"),)))
    >>> full = Schema("d", tables, dialect="sqlite")
    >>> tokens = [AlignedToken(t) for t in ("first", "names", "and", "titles")]
    >>> linked = link_by_name(tokens, Schema("d", full.tables[:1], dialect="sqlite"), full, Elements(("singer",), ()))
    >>> [one.schema for one in linked]
    ['singer.first_name', 'singer.first_name', None, 'song.title']
    """
    words = QuestionWords.of(tuple(one.token for one in tokens))
    linked = list(tokens)
    free = {place for place, one in enumerate(tokens) if one.type is None and place not in but}
    for name, meaning in _names(shown, full, used):
        while span := words.find_name(name, free):
            for place in span:
                linked[place] = replace(meaning, token=tokens[place].token)
                free.discard(place)
    return tuple(linked)


def entities_of(tokens: Iterable[AlignedToken], schema: Schema) -> Entities:
    """Return what tokens mean, in schema order, with the tables of the columns."""
    columns = {ColumnName(one.table, one.column) for one in tokens if one.column}
    tables = {one.table for one in tokens if one.table}
    return Entities(
        tuple(table.name for table in schema.tables if table.name in tables),
        tuple(name for name in schema.column_names if name in columns),
    )


def _meaning(entity: str, kind: str | None, schema: Schema) -> AlignedToken | None:
    if kind != "tbl":
        found = read_link(schema, (), (entity,)).columns
        if found:
            return AlignedToken("", found[0].table, found[0].column, "val" if kind == "val" else "col")
    tables = read_link(schema, (entity,), ()).tables
    if tables:
        return AlignedToken("", tables[0], "", "tbl")
    if kind == "tbl" and (found := read_link(schema, (), (entity,)).columns):
        return AlignedToken("", found[0].table, found[0].column, "col")
    return None


def _names(shown: Schema, full: Schema, used: Elements) -> list[tuple[str, AlignedToken]]:
    """Return the names to look for, each with what it means, in the order of looking."""
    here = {table.name for table in shown.tables}
    ranked: dict[tuple[str, EntityType], list[AlignedToken]] = {}
    for table in full.tables:
        ranked.setdefault((_key(table.name), "tbl"), []).append(AlignedToken("", table.name, "", "tbl"))
        for column in table.columns:
            meaning = AlignedToken("", table.name, column.name, "col")
            ranked.setdefault((_key(column.name), "col"), []).append(meaning)
    found: list[AlignedToken] = []
    for same in ranked.values():
        inside = [one for one in same if one.table in here]
        inside.sort(key=lambda one: ColumnName(one.table, one.column) not in used.columns)
        if inside or len(same) == 1:
            found.append((inside or same)[0])
    found.sort(
        key=lambda one: (-len(name_words(one.column or one.table)), one.table not in here, one.type == "col")
    )
    return [(one.column or one.table, one) for one in found]


def _key(name: str) -> str:
    return " ".join(stem(word) for word in name_words(name))
